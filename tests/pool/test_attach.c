/* SPDX-License-Identifier: PostgreSQL */
/* Tests of attaching: pools of other processes, and files that are none. */
#include "pool_fixture.h"

#include <sys/socket.h>
#include <sys/uio.h>

static void send_fds(int socket, const int fds[2])
{
	char control[CMSG_SPACE(2 * sizeof(int))] = {0}, byte = 1;
	struct iovec data = {.iov_base = &byte, .iov_len = 1};
	struct msghdr message = {.msg_iov = &data,
				 .msg_iovlen = 1,
				 .msg_control = control,
				 .msg_controllen = sizeof(control)};
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);

	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(2 * sizeof(int));
	memcpy(CMSG_DATA(head), fds, 2 * sizeof(int));
	ck_assert_int_eq(sendmsg(socket, &message, 0), 1);
}

static void receive_fds(int socket, int fds[2])
{
	char control[CMSG_SPACE(2 * sizeof(int))], byte;
	struct iovec data = {.iov_base = &byte, .iov_len = 1};
	struct msghdr message = {.msg_iov = &data,
				 .msg_iovlen = 1,
				 .msg_control = control,
				 .msg_controllen = sizeof(control)};

	ck_assert_int_eq(recvmsg(socket, &message, 0), 1);
	ck_assert_ptr_nonnull(CMSG_FIRSTHDR(&message));
	memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&message)), 2 * sizeof(int));
}

/* Attach, look at what the other wrote, write something, resize. */
static void use(struct fx_store *store, const int fds[2])
{
	const struct tide_storage storage = fx_storage(store);
	const struct tide_machine machine = {.proc_root = "/proc", .sys_root = "/sys"};
	struct fx fx = {.store = store};

	FX_OK(tide_pool_attach(fds, &storage, &machine, &fx.pool, &why));
	FX_OK(tide_session_open(fx.pool, &fx.s, &why));
	for (uint64_t page = 0; page < 100; page++)
		ck_assert_uint_eq(fx_get(fx.s, page), page + 1);
	for (uint64_t page = 50; page < 300; page++)
		fx_put(fx.s, page, page + 2);
	(void)fx_resize(fx.s, 3);
	(void)fx_resize(fx.s, 5);
	tide_session_close(fx.s);
	tide_pool_detach(fx.pool);
}

static void fill_and_check(struct fx *fx, void (*other)(void *), void *argument)
{
	for (uint64_t page = 0; page < 100; page++)
		atomic_store(&fx_stored(fx, page)->stored, 0);
	for (uint64_t page = 0; page < 100; page++) {
		struct tide_fix fix = fx_fix(fx->s, page, TIDE_FIX_NEW);

		tide_pool_mark_dirty(fx->s, &fix);
		fx_fill(fix.page, 0, page, page + 1);
		tide_pool_unfix(fx->s, &fix);
	}
	other(argument);
	for (uint64_t page = 0; page < 300; page++)
		ck_assert_uint_eq(fx_get(fx->s, page), page < 50 ? page + 1 : page + 2);
	ck_assert_uint_eq(fx_status(fx).allocatable_bytes, 5 * FX_CHUNK);
	fx_check(fx);
}

struct peer {
	struct fx *fx;
	int socket;
	pid_t child;
};

static void with_inherited(void *argument)
{
	struct peer *peer = argument;
	int fds[2];
	pid_t child;

	tide_pool_fds(peer->fx->pool, fds);
	child = fork();
	if (child == 0) {
		use(peer->fx->store, fds);
		_exit(0);
	}
	ck_assert_int_eq(fx_reap_child(child), 0);
}

START_TEST(inherited_descriptors)
{
	struct fx fx;
	struct peer peer = {.fx = &fx};

	fx_open(&fx, 6, 4);
	fill_and_check(&fx, with_inherited, &peer);
	fx_close(&fx);
}
END_TEST

static void with_passed(void *argument)
{
	struct peer *peer = argument;
	int fds[2];

	tide_pool_fds(peer->fx->pool, fds);
	send_fds(peer->socket, fds);
	ck_assert_int_eq(fx_reap_child(peer->child), 0);
}

/* The other process exists before the pool does. */
START_TEST(passed_descriptors)
{
	struct fx_store *store = fx_shared(sizeof(*store));
	struct tide_pool_config config = fx_config(store, 6, 4);
	struct fx fx = {.store = store};
	struct peer peer = {.fx = &fx};
	int sockets[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
	peer.child = fork();
	if (peer.child == 0) {
		int fds[2];

		receive_fds(sockets[1], fds);
		use(store, fds);
		_exit(0);
	}
	peer.socket = sockets[0];
	FX_OK(tide_pool_create(&config, &fx.pool, &why));
	FX_OK(tide_session_open(fx.pool, &fx.s, &why));
	fill_and_check(&fx, with_passed, &peer);
	fx_close(&fx);
}
END_TEST

static int attach(struct fx *fx, int first, int second)
{
	const int fds[2] = {first, second};
	const struct tide_storage storage = fx_storage(fx->store);
	struct tide_pool *pool = (struct tide_pool *)&pool;
	struct tide_reason reason = {0};
	int code = tide_pool_attach(fds, &storage, NULL, &pool, &reason);

	ck_assert_int_eq(code, reason.code);
	if (code == 0)
		tide_pool_detach(pool);
	else
		ck_assert_ptr_null(pool);
	return code;
}

static int memfd(uint64_t bytes)
{
	int fd = memfd_create("tidepool-test-other", MFD_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, (off_t)bytes), 0);
	return fd;
}

START_TEST(files_that_are_no_pool)
{
	struct fx fx, small;
	int fds[2], other[2], none;

	fx_open(&fx, 1536, 2); /* files are sized in units of 1 GiB */
	fx_open(&small, 2, 1);
	tide_pool_fds(fx.pool, fds);
	tide_pool_fds(small.pool, other);
	ck_assert_int_eq(attach(&fx, fds[0], fds[1]), 0);
	ck_assert_int_eq(attach(&fx, fds[1], fds[0]), TIDE_BAD_REQUEST);
	ck_assert_int_eq(attach(&fx, fds[0], other[1]), TIDE_BAD_REQUEST);
	ck_assert_int_eq(attach(&fx, -1, fds[1]), TIDE_BAD_REQUEST);
	ck_assert_int_eq(attach(&fx, fds[0], 1000), TIDE_BAD_REQUEST);
	none = memfd(64);
	ck_assert_int_eq(attach(&fx, none, fds[1]), TIDE_BAD_REQUEST);
	close(none);
	none = memfd(64 << 20); /* a hole, then zeros */
	ck_assert_int_eq(attach(&fx, none, fds[1]), TIDE_BAD_REQUEST);
	ck_assert_int_eq(ftruncate(none, 0), 0);
	ck_assert_int_eq(ftruncate(none, 64 << 20), 0);
	for (int i = 0; i < 64; i++)
		ck_assert_int_eq(pwrite(none, "tidepool", 8, i * 4096), 8);
	ck_assert_int_eq(attach(&fx, none, fds[1]), TIDE_BAD_REQUEST);
	close(none);
	fx_close(&small);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

START_TEST(other_versions_and_sizes)
{
	struct shared *shared;
	struct fx fx;
	int fds[2];

	fx_open(&fx, 6, 2);
	shared = fx.pool->shared;
	tide_pool_fds(fx.pool, fds);
	shared->version++;
	ck_assert_int_eq(attach(&fx, fds[0], fds[1]), TIDE_BAD_REQUEST);
	shared->version--;
	shared->magic++;
	ck_assert_int_eq(attach(&fx, fds[0], fds[1]), TIDE_BAD_REQUEST);
	shared->magic--;
	shared->bytes += UINT64_C(1) << 40;
	ck_assert_int_eq(attach(&fx, fds[0], fds[1]), TIDE_BAD_REQUEST);
	shared->bytes -= UINT64_C(1) << 40;
	ck_assert_int_eq(attach(&fx, fds[0], fds[1]), 0);
	fx_close(&fx);
}
END_TEST

START_TEST(nothing_given)
{
	const struct tide_storage none = {0};
	struct tide_storage storage;
	struct tide_pool *pool;
	struct tide_reason reason;
	struct fx fx;
	int fds[2];

	fx_open(&fx, 2, 1);
	storage = fx_storage(fx.store);
	tide_pool_fds(fx.pool, fds);
	ck_assert_int_eq(tide_pool_attach(NULL, &storage, NULL, &pool, &reason), TIDE_BAD_REQUEST);
	ck_assert_int_eq(tide_pool_attach(fds, NULL, NULL, &pool, &reason), TIDE_BAD_REQUEST);
	ck_assert_int_eq(tide_pool_attach(fds, &none, NULL, &pool, &reason), TIDE_BAD_REQUEST);
	ck_assert_int_eq(tide_pool_attach(fds, &storage, NULL, NULL, &reason), TIDE_BAD_REQUEST);
	fx_close(&fx);
}
END_TEST

/* A child may let go of all that it inherited: its parent goes on. */
START_TEST(child_closes_what_it_inherited)
{
	struct tide_fix write, read;
	struct fx fx;
	pid_t child;

	fx_open(&fx, 2, 1);
	fx_put(fx.s, 1, 1);
	write = fx_fix(fx.s, 1, TIDE_FIX_WRITE);
	read = fx_fix(fx.s, 2, TIDE_FIX_READ);
	child = fork();
	if (child == 0) {
		tide_session_close(fx.s);
		tide_pool_detach(fx.pool);
		_exit(0);
	}
	ck_assert_int_eq(fx_reap_child(child), 0);
	ck_assert_uint_eq(tide_pool_reap(fx.s), 0);
	ck_assert(fx_state(&fx, 1) & STATE_X);
	fx_fill(write.page, 0, 1, 2);
	tide_pool_mark_dirty(fx.s, &write);
	tide_pool_unfix(fx.s, &write);
	tide_pool_unfix(fx.s, &read);
	ck_assert_uint_eq(fx_get(fx.s, 1), 2);
	ck_assert_uint_eq(fx_status(&fx).sessions, 1);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

/* Pages live as long as somebody has the pool. */
START_TEST(pool_outlives_its_creator)
{
	struct fx_store *store = fx_shared(sizeof(*store));
	struct tide_pool_config config = fx_config(store, 6, 4);
	const struct tide_storage storage = fx_storage(store);
	struct fx fx = {.store = store};
	int sockets[2], fds[2];
	pid_t child;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
	child = fork();
	if (child == 0) {
		FX_OK(tide_pool_create(&config, &fx.pool, &why));
		FX_OK(tide_session_open(fx.pool, &fx.s, &why));
		for (uint64_t page = 0; page < 50; page++)
			fx_put(fx.s, page, 3);
		tide_pool_fds(fx.pool, fds);
		send_fds(sockets[1], fds);
		_exit(0);
	}
	ck_assert_int_eq(fx_reap_child(child), 0);
	receive_fds(sockets[0], fds);
	FX_OK(tide_pool_attach(fds, &storage, NULL, &fx.pool, &why));
	FX_OK(tide_session_open(fx.pool, &fx.s, &why));
	for (uint64_t page = 0; page < 50; page++)
		ck_assert_uint_eq(fx_get(fx.s, page), 3);
	ck_assert_uint_eq(store->reads, 50);
	ck_assert_uint_eq(tide_pool_reap(fx.s), 1);
	fx_check(&fx);
	fx_close(&fx);
}
END_TEST

int main(void)
{
	const struct fx_test tests[] = {
		FX_TEST(inherited_descriptors),
		FX_TEST(passed_descriptors),
		FX_TEST(files_that_are_no_pool),
		FX_TEST(other_versions_and_sizes),
		FX_TEST(nothing_given),
		FX_TEST(child_closes_what_it_inherited),
		FX_TEST(pool_outlives_its_creator),
	};

	return fx_run("pool-attach", tests, sizeof(tests) / sizeof(tests[0]));
}
