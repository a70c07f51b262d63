// SPDX-License-Identifier: GPL-2.0
/* Two thermal zones whose temperature is what it is set to. The cpu zone throttles the clusters above its trip point. */
#include <linux/module.h>
#include <linux/thermal.h>

#include "vphone.h"

static int cpu_mc = 38000;
module_param(cpu_mc, int, 0644);
static int skin_mc = 31000;
module_param(skin_mc, int, 0644);
static int trip_mc = 95000;
module_param(trip_mc, int, 0644);

static struct thermal_zone_device *cpu_zone, *skin_zone;

static int cpu_temp(struct thermal_zone_device *zone, int *mc)
{
	*mc = READ_ONCE(cpu_mc);
	return 0;
}

static int skin_temp(struct thermal_zone_device *zone, int *mc)
{
	*mc = READ_ONCE(skin_mc);
	return 0;
}

static int trip_type(struct thermal_zone_device *zone, int trip, enum thermal_trip_type *type)
{
	*type = THERMAL_TRIP_PASSIVE;
	return 0;
}

static int trip_temp(struct thermal_zone_device *zone, int trip, int *mc)
{
	*mc = READ_ONCE(trip_mc);
	return 0;
}

static int bind(struct thermal_zone_device *zone, struct thermal_cooling_device *cooler)
{
	if (strncmp(cooler->type, "cpufreq-", 8))
		return 0;
	return thermal_zone_bind_cooling_device(zone, 0, cooler, THERMAL_NO_LIMIT, THERMAL_NO_LIMIT, THERMAL_WEIGHT_DEFAULT);
}

static int unbind(struct thermal_zone_device *zone, struct thermal_cooling_device *cooler)
{
	if (strncmp(cooler->type, "cpufreq-", 8))
		return 0;
	return thermal_zone_unbind_cooling_device(zone, 0, cooler);
}

static struct thermal_zone_device_ops cpu_ops = {
	.get_temp = cpu_temp,
	.get_trip_type = trip_type,
	.get_trip_temp = trip_temp,
	.bind = bind,
	.unbind = unbind,
};

static struct thermal_zone_device_ops skin_ops = {
	.get_temp = skin_temp,
};

int vphone_skin_mc(void)
{
	return READ_ONCE(skin_mc);
}

int vphone_heat_init(void)
{
	int err;

	cpu_zone = thermal_zone_device_register("cpu", 1, 0, NULL, &cpu_ops, NULL, 500, 500);
	if (IS_ERR(cpu_zone))
		return PTR_ERR(cpu_zone);
	skin_zone = thermal_zone_device_register("skin", 0, 0, NULL, &skin_ops, NULL, 0, 0);
	if (IS_ERR(skin_zone)) {
		thermal_zone_device_unregister(cpu_zone);
		return PTR_ERR(skin_zone);
	}
	err = thermal_zone_device_enable(cpu_zone);
	if (!err)
		err = thermal_zone_device_enable(skin_zone);
	if (err)
		vphone_heat_exit();
	return err;
}

void vphone_heat_exit(void)
{
	thermal_zone_device_unregister(skin_zone);
	thermal_zone_device_unregister(cpu_zone);
}
