/*
 * Preloaded into adbd: turns every bind() to "any address" into one to 127.0.0.1. adbd has no authentication and
 * would otherwise offer a root shell on every interface of the machine.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

int bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	int (*next)(int, const struct sockaddr *, socklen_t) = dlsym(RTLD_NEXT, "bind");
	struct sockaddr_storage copy = { 0 };

	if (len <= sizeof(copy)) {
		memcpy(&copy, addr, len);
		if (addr->sa_family == AF_INET)
			((struct sockaddr_in *)&copy)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		else if (addr->sa_family == AF_INET6)
			inet_pton(AF_INET6, "::ffff:127.0.0.1", &((struct sockaddr_in6 *)&copy)->sin6_addr);
		addr = (struct sockaddr *)&copy;
	}
	return next(fd, addr, len);
}
