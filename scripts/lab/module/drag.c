// SPDX-License-Identifier: GPL-2.0
/*
 * Makes the clocks real: an emulated CPU runs at the same speed whatever its policy says, so a thread per CPU holds it idle
 * for the rest of each period. At half of the cluster's nominal top clock a CPU gets half of the time.
 */
#include <linux/cpu.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/sched.h>

#include "vphone.h"

#define PERIOD_US 20000

static bool drag = true;
module_param(drag, bool, 0644);
MODULE_PARM_DESC(drag, "work slows down with the clock");

static DEFINE_PER_CPU(struct task_struct *, thread);
static int hotplug_state;

/* The part of its nominal speed that a CPU has now, in thousandths. */
unsigned int vphone_speed(unsigned int cpu)
{
	return drag ? vphone_cpu_speed(cpu) : 1000;
}

static int hold_back(void *unused)
{
	while (!kthread_should_stop()) {
		unsigned int run_us = PERIOD_US / 1000 * vphone_speed(smp_processor_id());

		usleep_range(run_us, run_us + 50);
		if (run_us < PERIOD_US)
			play_idle_precise((u64)(PERIOD_US - run_us) * NSEC_PER_USEC, U64_MAX);
	}
	return 0;
}

static int start(unsigned int cpu)
{
	struct task_struct *task = kthread_create_on_node(hold_back, NULL, cpu_to_node(cpu), "vphone-drag/%u", cpu);

	if (IS_ERR(task))
		return PTR_ERR(task);
	kthread_bind(task, cpu);
	sched_set_fifo(task);
	per_cpu(thread, cpu) = task;
	wake_up_process(task);
	return 0;
}

static int end(unsigned int cpu)
{
	kthread_stop(per_cpu(thread, cpu));
	return 0;
}

int vphone_drag_init(void)
{
	hotplug_state = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "vphone:drag", start, end);
	return min(hotplug_state, 0);
}

void vphone_drag_exit(void)
{
	cpuhp_remove_state(hotplug_state);
}
