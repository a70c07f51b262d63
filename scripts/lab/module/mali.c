// SPDX-License-Identifier: GPL-2.0
/*
 * A second GPU, driven the vendor's way: plain kHz nodes of its platform device, no devfreq. As reported of Mali drivers of some
 * phones: limits must be table values; a minimum above the maximum resets the other lock; what is read back is the own lock,
 * never the clamp of another party, which only a text report shows.
 */
#include <linux/module.h>
#include <linux/platform_device.h>

#include "vphone.h"

#define MALI_K 1800
#define STEPS ARRAY_SIZE(opps)

static const struct vphone_opp opps[] = {
	{ 151000, 550 }, { 302000, 600 }, { 471000, 675 }, { 572000, 725 }, { 762000, 825 }, { 890000, 925 },
};

static unsigned int mali_busy = 10;
module_param(mali_busy, uint, 0644);
MODULE_PARM_DESC(mali_busy, "percent");
static unsigned int mali_cap_khz;
module_param(mali_cap_khz, uint, 0644);
MODULE_PARM_DESC(mali_cap_khz, "clamp of another party; 0 = none");

static struct platform_device *mali;
static unsigned int lock_min, lock_max = STEPS - 1;	/* indices: the own lock */

static unsigned int effective_max(void)
{
	unsigned int i = READ_ONCE(lock_max), cap = READ_ONCE(mali_cap_khz);

	while (cap && i && opps[i].khz > cap)
		i--;
	return i;
}

/* The governor is simple: the load times the top step, within the range. */
static unsigned int running(void)
{
	unsigned int wanted = min(mali_busy, 100U) * (STEPS - 1) / 100, top = effective_max();

	return clamp(wanted, min(READ_ONCE(lock_min), top), top);
}

static int index_of(const char *buf, unsigned int *index)
{
	unsigned int khz;
	int err = kstrtouint(buf, 10, &khz);

	for (*index = 0; !err && *index < STEPS; (*index)++)
		if (opps[*index].khz == khz)
			return 0;
	return err ? err : -EINVAL;
}

static ssize_t scaling_min_freq_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", opps[lock_min].khz);
}

static ssize_t scaling_min_freq_store(struct device *dev, struct device_attribute *attr, const char *buf, size_t len)
{
	unsigned int i;
	int err = index_of(buf, &i);

	if (err)
		return err;
	lock_min = i;
	if (lock_min > lock_max)
		lock_max = STEPS - 1;
	return len;
}
static DEVICE_ATTR_RW(scaling_min_freq);

static ssize_t scaling_max_freq_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", opps[lock_max].khz);
}

static ssize_t scaling_max_freq_store(struct device *dev, struct device_attribute *attr, const char *buf, size_t len)
{
	unsigned int i;
	int err = index_of(buf, &i);

	if (err)
		return err;
	lock_max = i;
	if (lock_max < lock_min)
		lock_min = 0;
	return len;
}
static DEVICE_ATTR_RW(scaling_max_freq);

static ssize_t available_frequencies_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	int i, n = 0;

	for (i = STEPS - 1; i >= 0; i--)
		n += sysfs_emit_at(buf, n, "%u ", opps[i].khz);
	return n + sysfs_emit_at(buf, n, "\n");
}
static DEVICE_ATTR_RO(available_frequencies);

static ssize_t min_freq_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", opps[0].khz);
}
static DEVICE_ATTR_RO(min_freq);

static ssize_t max_freq_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", opps[STEPS - 1].khz);
}
static DEVICE_ATTR_RO(max_freq);

static ssize_t cur_freq_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", opps[running()].khz);
}
static DEVICE_ATTR_RO(cur_freq);

static ssize_t clock_info_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	unsigned int top = effective_max();
	int n = sysfs_emit(buf, "Clock: %u\n", opps[running()].khz);

	n += sysfs_emit_at(buf, n, "Sysfs lock: %u %u\n", opps[lock_min].khz, opps[lock_max].khz);
	n += sysfs_emit_at(buf, n, "Thermal lock: - %u\n", mali_cap_khz);
	return n + sysfs_emit_at(buf, n, "Effective Range: %u %u\n", opps[min(lock_min, top)].khz, opps[top].khz);
}
static DEVICE_ATTR_RO(clock_info);

static struct attribute *mali_attrs[] = {
	&dev_attr_scaling_min_freq.attr, &dev_attr_scaling_max_freq.attr, &dev_attr_available_frequencies.attr,
	&dev_attr_min_freq.attr, &dev_attr_max_freq.attr, &dev_attr_cur_freq.attr, &dev_attr_clock_info.attr, NULL,
};
ATTRIBUTE_GROUPS(mali);

u64 vphone_mali_mw(void)
{
	return div_u64(vphone_mw(MALI_K, opps[running()]) * (20 + min(mali_busy, 100U) * 80 / 100), 100);
}

int vphone_mali_init(void)
{
	int err;

	mali = platform_device_register_simple("1f000000.mali", -1, NULL, 0);
	if (IS_ERR(mali))
		return PTR_ERR(mali);
	err = device_add_groups(&mali->dev, mali_groups);
	if (err)
		platform_device_unregister(mali);
	return err;
}

void vphone_mali_exit(void)
{
	device_remove_groups(&mali->dev, mali_groups);
	platform_device_unregister(mali);
}
