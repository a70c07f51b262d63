// SPDX-License-Identifier: GPL-2.0
/* A GPU under devfreq. How busy it is can be set: nothing runs on it. */
#include <linux/devfreq.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/pm_opp.h>

#include "vphone.h"

#define GPU_K 2180

static const struct vphone_opp opps[] = {
	{ 202000, 550 }, { 302000, 600 }, { 400000, 650 }, { 510000, 700 }, { 701000, 800 }, { 848000, 900 },
};

static unsigned int gpu_busy = 10;
module_param(gpu_busy, uint, 0644);
MODULE_PARM_DESC(gpu_busy, "percent");

static struct platform_device *gpu;
static struct devfreq *devfreq;
static unsigned int at;

static int gpu_target(struct device *dev, unsigned long *hz, u32 flags)
{
	struct dev_pm_opp *opp = devfreq_recommended_opp(dev, hz, flags);
	unsigned int i;

	if (IS_ERR(opp))
		return PTR_ERR(opp);
	dev_pm_opp_put(opp);
	for (i = 0; i < ARRAY_SIZE(opps); i++)
		if (opps[i].khz * 1000UL == *hz)
			WRITE_ONCE(at, i);
	return 0;
}

static int gpu_get(struct device *dev, unsigned long *hz)
{
	*hz = opps[READ_ONCE(at)].khz * 1000UL;
	return 0;
}

static int gpu_status(struct device *dev, struct devfreq_dev_status *status)
{
	status->total_time = 100;
	status->busy_time = min(gpu_busy, 100U);
	return gpu_get(dev, &status->current_frequency);
}

static struct devfreq_dev_profile profile = {
	.polling_ms = 100,
	.target = gpu_target,
	.get_cur_freq = gpu_get,
	.get_dev_status = gpu_status,
};

u64 vphone_gpu_mw(void)
{
	return div_u64(vphone_mw(GPU_K, opps[READ_ONCE(at)]) * (20 + min(gpu_busy, 100U) * 80 / 100), 100);
}

int vphone_gpu_init(void)
{
	unsigned int i;
	int err = 0;

	gpu = platform_device_register_simple("vphone-gpu", -1, NULL, 0);
	if (IS_ERR(gpu))
		return PTR_ERR(gpu);
	for (i = 0; i < ARRAY_SIZE(opps) && !err; i++)
		err = dev_pm_opp_add(&gpu->dev, opps[i].khz * 1000UL, opps[i].mv * 1000UL);
	profile.initial_freq = opps[0].khz * 1000UL;
	if (!err) {
		devfreq = devfreq_add_device(&gpu->dev, &profile, "simple_ondemand", NULL);
		err = PTR_ERR_OR_ZERO(devfreq);
	}
	if (err) {
		dev_pm_opp_remove_all_dynamic(&gpu->dev);
		platform_device_unregister(gpu);
	}
	return err;
}

void vphone_gpu_exit(void)
{
	devfreq_remove_device(devfreq);
	dev_pm_opp_remove_all_dynamic(&gpu->dev);
	platform_device_unregister(gpu);
}
