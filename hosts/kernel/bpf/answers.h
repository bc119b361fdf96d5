/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who answers on a pipe, a connection, an eventfd, a queue or a futex. waits.h says how that is learnt. Entries are written
 * without a lock, and may be overwritten by those of other objects.
 */
#pragma once
#include "state.h"

enum object_kind { NO_OBJECT, PIPE, UNIX_SOCKET, INTERNET_SOCKET, EVENTFD, FUTEX, QUEUE, MANY };

/*
 * The thread that answers on an object, as a number of a client with one of the flags, or none. EXPECTED: it has the request, but
 * has not answered yet. IN_DOUBT: it answered last, and another one before it.
 */
struct answer {
	struct object object;
	u64 number;
};

#define EXPECTED (1ull << 31)
#define IN_DOUBT (1ull << 30)

#define NR_ANSWERS 8192
struct answer answers[IF_ONE(NR_ANSWERS)];

static __always_inline struct answer *answer_at(const struct object *object)
{
	u64 hash = (object->a ^ object->b) * 0x9e3779b97f4a7c15ull;

	return &answers[hash >> 51 & (IF_ONE(NR_ANSWERS) - 1)];
}

static __always_inline bool is_same(const struct object *a, const struct object *b)
{
	return a->a == b->a && a->b == b->b;
}

/* A thread has a request, and is to answer on this object. Mostly that is known: then nothing is written. */
static __always_inline void note_request(const struct object *object, u64 number)
{
	struct answer *answer = answer_at(object);

	if (is_same(&answer->object, object) && answer->number == (number | EXPECTED))
		return;
	answer->object = *object;
	answer->number = number | EXPECTED;
}

static __always_inline void note_answer(const struct object *object, u64 number)
{
	struct answer *answer = answer_at(object);

	if (is_same(&answer->object, object)) {
		if ((answer->number & ~EXPECTED) == number)
			return;
		if (!(answer->number & EXPECTED) && answer->number != (number | IN_DOUBT))
			number |= IN_DOUBT;
	}
	answer->object = *object;
	answer->number = number;
}

static __always_inline u64 who_answers(const struct object *object)
{
	struct answer *answer = answer_at(object);

	return is_same(&answer->object, object) && !(answer->number & IN_DOUBT) ? answer->number & ~EXPECTED : 0;
}
