// SPDX-License-Identifier: GPL-2.0
#include <linux/module.h>
#include <linux/platform_device.h>

#include "vphone.h"

static struct platform_device *board;

static int __init vphone_init(void)
{
	int err;

	board = platform_device_register_simple("vphone", -1, NULL, 0);
	if (IS_ERR(board))
		return PTR_ERR(board);
	err = vphone_cpu_init();
	if (err)
		goto no_cpu;
	err = vphone_drag_init();
	if (err)
		goto no_drag;
	err = vphone_gpu_init();
	if (err)
		goto no_gpu;
	err = vphone_mali_init();
	if (err)
		goto no_mali;
	err = vphone_heat_init();
	if (err)
		goto no_heat;
	err = vphone_gauge_init(&board->dev);
	if (err)
		goto no_gauge;
	return 0;

no_gauge:
	vphone_heat_exit();
no_heat:
	vphone_mali_exit();
no_mali:
	vphone_gpu_exit();
no_gpu:
	vphone_drag_exit();
no_drag:
	vphone_cpu_exit();
no_cpu:
	platform_device_unregister(board);
	return err;
}

static void __exit vphone_exit(void)
{
	vphone_gauge_exit();
	vphone_heat_exit();
	vphone_mali_exit();
	vphone_gpu_exit();
	vphone_drag_exit();
	vphone_cpu_exit();
	platform_device_unregister(board);
}

module_init(vphone_init);
module_exit(vphone_exit);
MODULE_DESCRIPTION("A phone's clocks, heat and battery, for tests");
MODULE_LICENSE("GPL");
MODULE_SOFTDEP("pre: governor_simpleondemand");
