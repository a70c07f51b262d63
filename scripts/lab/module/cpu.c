// SPDX-License-Identifier: GPL-2.0
/* Three CPU clusters with their own clocks: CPUs 0-1, CPU 2, and CPU 3 with a boost step. */
#include <linux/cpu_cooling.h>
#include <linux/cpufreq.h>
#include <linux/kernel_stat.h>
#include <linux/module.h>

#include "vphone.h"

#define CLUSTERS 3
#define MAX_OPPS 8

struct cluster {
	unsigned int first_cpu;
	u64 k;				/* mW per GHz and V^2, one CPU */
	unsigned int boost_from;	/* steps above this clock are boost steps; 0 = none */
	struct vphone_opp opps[MAX_OPPS];
	struct cpufreq_frequency_table table[MAX_OPPS + 1];
	struct thermal_cooling_device *cooler;
	unsigned int at;		/* index of the step asked for */
};

static struct cluster clusters[CLUSTERS] = {
	{ .first_cpu = 0, .k = 89, .opps = {
		{ 300000, 550 }, { 574000, 600 }, { 930000, 675 }, { 1197000, 725 }, { 1401000, 800 }, { 1803000, 900 } } },
	{ .first_cpu = 2, .k = 281, .opps = {
		{ 400000, 550 }, { 910000, 650 }, { 1328000, 725 }, { 1836000, 850 }, { 2253000, 1000 } } },
	{ .first_cpu = 3, .k = 462, .boost_from = 2802000, .opps = {
		{ 500000, 550 }, { 1106000, 650 }, { 1826000, 775 }, { 2401000, 925 }, { 2802000, 1050 }, { 3105000, 1200 } } },
};

/* A clamp of the firmware, per cluster: the clock really runs no faster, and the kernel is not told. 0 = none. */
static unsigned int fw_cap_khz[CLUSTERS];
module_param_array(fw_cap_khz, uint, NULL, 0644);

static struct cluster *cluster_of(unsigned int cpu)
{
	int i = CLUSTERS - 1;

	while (clusters[i].first_cpu > cpu)
		i--;
	return &clusters[i];
}

/* Where the clock really is: the step asked for, or what the firmware allows, at the voltage of the step asked for. */
static struct vphone_opp running(struct cluster *c)
{
	struct vphone_opp opp = c->opps[READ_ONCE(c->at)];
	unsigned int cap = READ_ONCE(fw_cap_khz[c - clusters]);

	if (cap && opp.khz > cap)
		opp.khz = cap;
	return opp;
}

/* The highest step that is not a boost step: full speed. */
static unsigned int nominal_khz(struct cluster *c)
{
	unsigned int i, khz = 0;

	for (i = 0; i < MAX_OPPS && c->opps[i].khz; i++)
		if (!c->boost_from || c->opps[i].khz <= c->boost_from)
			khz = c->opps[i].khz;
	return khz;
}

/*
 * Speed by clock, in thousandths. A governor that follows the load is taken to be at its upper limit: it will be, for work
 * that is there to be measured, and the clock of the moment would make the load depend on itself.
 */
unsigned int vphone_cpu_speed(unsigned int cpu)
{
	struct cluster *c = cluster_of(cpu);
	struct cpufreq_policy *policy = cpufreq_cpu_get(cpu);
	unsigned int khz = running(c).khz, cap = READ_ONCE(fw_cap_khz[c - clusters]);

	if (!policy)
		return 1000;
	if (policy->governor && policy->governor->flags & CPUFREQ_GOV_DYNAMIC_SWITCHING)
		khz = cap ? min(cap, policy->max) : policy->max;
	cpufreq_cpu_put(policy);
	return min(1000U, (unsigned int)div_u64(1000ULL * khz, nominal_khz(c)));
}

static void fill_table(struct cluster *c)
{
	int i;

	for (i = 0; i < MAX_OPPS && c->opps[i].khz; i++) {
		c->table[i].frequency = c->opps[i].khz;
		if (c->boost_from && c->opps[i].khz > c->boost_from)
			c->table[i].flags = CPUFREQ_BOOST_FREQ;
	}
	c->table[i].frequency = CPUFREQ_TABLE_END;
}

static int cluster_init(struct cpufreq_policy *policy)
{
	struct cluster *c = cluster_of(policy->cpu);
	unsigned int cpu;

	for_each_possible_cpu(cpu)
		if (cluster_of(cpu) == c)
			cpumask_set_cpu(cpu, policy->cpus);
	policy->driver_data = c;
	policy->freq_table = c->table;
	policy->cur = c->opps[c->at].khz;
	policy->cpuinfo.transition_latency = 50 * NSEC_PER_USEC;
	return c->boost_from ? cpufreq_enable_boost_support() : 0;
}

static int cluster_exit(struct cpufreq_policy *policy)
{
	return 0;
}

static int cluster_target(struct cpufreq_policy *policy, unsigned int index)
{
	struct cluster *c = policy->driver_data;

	WRITE_ONCE(c->at, index);
	return 0;
}

static unsigned int cluster_get(unsigned int cpu)
{
	return running(cluster_of(cpu)).khz;
}

/* A cooling device per cluster: its clamp goes through the kernel's frequency QoS, so scaling_max_freq shows it. */
static void cluster_ready(struct cpufreq_policy *policy)
{
	struct cluster *c = policy->driver_data;

	if (!c->cooler)
		c->cooler = cpufreq_cooling_register(policy);
	if (IS_ERR(c->cooler))
		c->cooler = NULL;
}

static struct freq_attr *attrs[] = {
	&cpufreq_freq_attr_scaling_available_freqs,
	&cpufreq_freq_attr_scaling_boost_freqs,
	NULL,
};

static struct cpufreq_driver driver = {
	.name = "vphone",
	.flags = CPUFREQ_NEED_INITIAL_FREQ_CHECK,
	.init = cluster_init,
	.exit = cluster_exit,
	.ready = cluster_ready,
	.verify = cpufreq_generic_frequency_table_verify,
	.target_index = cluster_target,
	.get = cluster_get,
	.attr = attrs,
};

/* How busy a CPU was since the last call, in percent of the time it was given. */
static unsigned int busy(unsigned int cpu)
{
	static u64 last_wall[NR_CPUS], last_idle[NR_CPUS];
	u64 wall, idle = get_cpu_idle_time(cpu, &wall, 0);
	u64 all = wall - last_wall[cpu], slept = min(idle - last_idle[cpu], all);

	last_wall[cpu] = wall;
	last_idle[cpu] = idle;
	if (!all)
		return 0;
	return min(100U, (unsigned int)div64_u64(100000 * (all - slept), all) / vphone_speed(cpu));
}

/* A fifth of a CPU's power at its clock is there when it idles. */
u64 vphone_cpu_mw(void)
{
	unsigned int cpu;
	u64 mw = 0;

	for_each_online_cpu(cpu) {
		struct cluster *c = cluster_of(cpu);

		mw += div_u64(vphone_mw(c->k, running(c)) * (20 + busy(cpu) * 80 / 100), 100);
	}
	return mw;
}

int vphone_cpu_init(void)
{
	int i;

	for (i = 0; i < CLUSTERS; i++)
		fill_table(&clusters[i]);
	return cpufreq_register_driver(&driver);
}

void vphone_cpu_exit(void)
{
	int i;

	for (i = 0; i < CLUSTERS; i++)
		if (clusters[i].cooler)
			cpufreq_cooling_unregister(clusters[i].cooler);
	cpufreq_unregister_driver(&driver);
}
