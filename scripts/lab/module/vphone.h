/* SPDX-License-Identifier: GPL-2.0 */
/*
 * vphone: the power-management side of a phone that is not there. Real cpufreq, devfreq, thermal and power_supply devices
 * of the running kernel, over clocks, heat and a battery that are only numbers. For tests of programs that drive such nodes.
 */
#ifndef VPHONE_H
#define VPHONE_H

#include <linux/device.h>
#include <linux/math64.h>

/* One operating point: clock in kHz, supply in mV. */
struct vphone_opp {
	unsigned int khz;
	unsigned int mv;
};

/* Dynamic power in mW of a block with capacity k (mW per GHz and V^2), k * f * V^2. */
static inline u64 vphone_mw(u64 k, struct vphone_opp opp)
{
	return div_u64(k * opp.khz * opp.mv * opp.mv, 1000000U) / 1000000U;
}

int vphone_cpu_init(void);
void vphone_cpu_exit(void);
u64 vphone_cpu_mw(void);
unsigned int vphone_cpu_speed(unsigned int cpu);

int vphone_drag_init(void);
void vphone_drag_exit(void);
unsigned int vphone_speed(unsigned int cpu);

int vphone_gpu_init(void);
void vphone_gpu_exit(void);
u64 vphone_gpu_mw(void);

int vphone_mali_init(void);
void vphone_mali_exit(void);
u64 vphone_mali_mw(void);

int vphone_heat_init(void);
void vphone_heat_exit(void);
int vphone_skin_mc(void);

int vphone_gauge_init(struct device *parent);
void vphone_gauge_exit(void);

#endif
