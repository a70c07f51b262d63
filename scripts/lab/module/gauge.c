// SPDX-License-Identifier: GPL-2.0
/* A battery with a slow fuel gauge, and a USB supply. What the battery gives follows the clocks. */
#include <linux/module.h>
#include <linux/power_supply.h>
#include <linux/workqueue.h>

#include "vphone.h"

#define TICK_MS 50
#define FULL_UAH 4500000

static unsigned int gauge_ms = 1000;
module_param(gauge_ms, uint, 0644);
MODULE_PARM_DESC(gauge_ms, "current_now, voltage_now and charge_counter are refreshed this often");
static unsigned int idle_mw = 350;
module_param(idle_mw, uint, 0644);
MODULE_PARM_DESC(idle_mw, "what the rest of the phone takes");
static int batt_uv = 3900000;
module_param(batt_uv, int, 0644);
static int batt_ua;
module_param(batt_ua, int, 0644);
MODULE_PARM_DESC(batt_ua, "fixed current_now, in place of the one that follows the clocks; 0 = follow");
static bool usb_online;
module_param(usb_online, bool, 0644);
static int usb_ua = 1500000;
module_param(usb_ua, int, 0644);
MODULE_PARM_DESC(usb_ua, "what the USB supply gives while online");

/* The truth behind the gauge, for checking what a program measured. */
static unsigned int true_mw;
module_param(true_mw, uint, 0444);
static ulong true_uj;
module_param(true_uj, ulong, 0444);

static bool input_suspend;		/* the vendor's "do not charge" switch */
static int seen_ua, seen_uv;		/* what the gauge shows until its next refresh */
static s64 charge_nah = 3600000000LL, seen_nah = 3600000000LL;
static s64 window_uj;
static unsigned int window_ms;
static struct power_supply *battery, *usb;
static void tick(struct work_struct *work);
static DECLARE_DELAYED_WORK(ticker, tick);

static bool powered(void)
{
	return usb_online && !input_suspend;
}

static void refresh(void)
{
	int ua = -(int)div64_s64(window_uj * 1000000, (s64)window_ms * (batt_uv / 1000));

	if (powered())
		ua += usb_ua;
	if (batt_ua)
		ua = batt_ua;
	charge_nah += div_s64((s64)ua * window_ms, 3600);
	seen_ua = ua;
	seen_uv = batt_uv;
	seen_nah = charge_nah;
	window_uj = 0;
	window_ms = 0;
}

static void tick(struct work_struct *work)
{
	static ktime_t last;
	ktime_t now = ktime_get();
	unsigned int ms = last ? ktime_ms_delta(now, last) : TICK_MS;

	last = now;
	true_mw = idle_mw + vphone_cpu_mw() + vphone_gpu_mw() + vphone_mali_mw();
	true_uj += (ulong)true_mw * ms;
	window_uj += (s64)true_mw * ms;
	window_ms += ms;
	if (window_ms && window_ms >= gauge_ms)
		refresh();
	schedule_delayed_work(&ticker, msecs_to_jiffies(TICK_MS));
}

static int status(void)
{
	if (!powered())
		return POWER_SUPPLY_STATUS_DISCHARGING;
	return seen_ua > 0 ? POWER_SUPPLY_STATUS_CHARGING : POWER_SUPPLY_STATUS_NOT_CHARGING;
}

static int battery_get(struct power_supply *psy, enum power_supply_property what, union power_supply_propval *val)
{
	switch (what) {
	case POWER_SUPPLY_PROP_STATUS:
		val->intval = status();
		return 0;
	case POWER_SUPPLY_PROP_PRESENT:
		val->intval = 1;
		return 0;
	case POWER_SUPPLY_PROP_VOLTAGE_NOW:
		val->intval = seen_uv;
		return 0;
	case POWER_SUPPLY_PROP_CURRENT_NOW:
		val->intval = seen_ua;
		return 0;
	case POWER_SUPPLY_PROP_CHARGE_COUNTER:
		val->intval = div_s64(seen_nah, 1000);
		return 0;
	case POWER_SUPPLY_PROP_CAPACITY:
		val->intval = clamp_t(int, div_s64(seen_nah, FULL_UAH * 10LL), 0, 100);
		return 0;
	case POWER_SUPPLY_PROP_TEMP:
		val->intval = vphone_skin_mc() / 100;
		return 0;
	default:
		return -EINVAL;
	}
}

static int usb_get(struct power_supply *psy, enum power_supply_property what, union power_supply_propval *val)
{
	if (what != POWER_SUPPLY_PROP_ONLINE)
		return -EINVAL;
	val->intval = usb_online;
	return 0;
}

static ssize_t input_suspend_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", input_suspend);
}

static ssize_t input_suspend_store(struct device *dev, struct device_attribute *attr, const char *buf, size_t len)
{
	int err = kstrtobool(buf, &input_suspend);

	return err ? err : len;
}
static DEVICE_ATTR_RW(input_suspend);

static struct attribute *battery_attrs[] = { &dev_attr_input_suspend.attr, NULL };
ATTRIBUTE_GROUPS(battery);

static enum power_supply_property battery_props[] = {
	POWER_SUPPLY_PROP_STATUS, POWER_SUPPLY_PROP_PRESENT, POWER_SUPPLY_PROP_VOLTAGE_NOW, POWER_SUPPLY_PROP_CURRENT_NOW,
	POWER_SUPPLY_PROP_CHARGE_COUNTER, POWER_SUPPLY_PROP_CAPACITY, POWER_SUPPLY_PROP_TEMP,
};
static enum power_supply_property usb_props[] = { POWER_SUPPLY_PROP_ONLINE };

static const struct power_supply_desc battery_desc = {
	.name = "battery", .type = POWER_SUPPLY_TYPE_BATTERY, .get_property = battery_get,
	.properties = battery_props, .num_properties = ARRAY_SIZE(battery_props),
};
static const struct power_supply_desc usb_desc = {
	.name = "usb", .type = POWER_SUPPLY_TYPE_USB, .get_property = usb_get,
	.properties = usb_props, .num_properties = ARRAY_SIZE(usb_props),
};

int vphone_gauge_init(struct device *parent)
{
	struct power_supply_config cfg = { .attr_grp = battery_groups };

	seen_uv = batt_uv;
	battery = power_supply_register(parent, &battery_desc, &cfg);
	if (IS_ERR(battery))
		return PTR_ERR(battery);
	usb = power_supply_register(parent, &usb_desc, NULL);
	if (IS_ERR(usb)) {
		power_supply_unregister(battery);
		return PTR_ERR(usb);
	}
	schedule_delayed_work(&ticker, 0);
	return 0;
}

void vphone_gauge_exit(void)
{
	cancel_delayed_work_sync(&ticker);
	power_supply_unregister(usb);
	power_supply_unregister(battery);
}
