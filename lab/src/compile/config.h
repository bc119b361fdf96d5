/* What elfutils' configure script finds out, as far as libelf needs it. */
#define HAVE_ERR_H 1
#define HAVE_DECL_RAWMEMCHR 1
#define HAVE_DECL_POWEROF2 1
#define HAVE_DECL_MEMPCPY 1
#define HAVE_DECL_REALLOCARRAY 1
#define HAVE_VISIBILITY 1
#include <eu-config.h>
