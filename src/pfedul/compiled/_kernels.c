/* What stages 1 and 2 of a removal do to every number of a model, each in one pass.
 *
 * Tensors come as addresses of contiguous float32, all of one length; __init__.py is the
 * door that checks this. Sums are kept in a fixed number of lanes, whatever the processor has,
 * and products are never fused with sums (-ffp-contract=off): so the bits of a result depend
 * neither on the processor nor on where in memory the numbers are.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <float.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the bytes of a word must lie in the order of their places"
#endif

/* One version for each width of vectors; the loader takes the widest that the processor has. */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && __GNUC__ >= 12
#define WIDE __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define WIDE
#endif

#define LANES 16
#define FOR_LANES for (int l = 0; l < LANES; l++)

typedef Py_ssize_t Size;
typedef const float *restrict In;
typedef float *restrict Out;

static double total_of(const double *lanes) {
    double total = 0;
    FOR_LANES total += lanes[l];
    return total;
}

static inline double square(float x) { return (double)x * x; }

WIDE static double sum(In x, Size n) {
    double lanes[LANES] = {0};
    Size i = 0;
    for (; i + LANES <= n; i += LANES) FOR_LANES lanes[l] += x[i + l];
    for (int l = 0; i < n; i++, l++) lanes[l] += x[i];
    return total_of(lanes);
}

WIDE static double square_sum(In x, Size n) {
    double lanes[LANES] = {0};
    Size i = 0;
    for (; i + LANES <= n; i += LANES) FOR_LANES lanes[l] += square(x[i + l]);
    for (int l = 0; i < n; i++, l++) lanes[l] += square(x[i]);
    return total_of(lanes);
}

/* Eq. 10: the direction of a correction. */
static inline float direction(float theta, float start, float fisher) {
    return fisher * (theta - start);
}

WIDE static double direction_square_sum(In theta, In start, In fisher, Size n) {
    double lanes[LANES] = {0};
    Size i = 0;
    for (; i + LANES <= n; i += LANES)
        FOR_LANES lanes[l] += square(direction(theta[i + l], start[i + l], fisher[i + l]));
    for (int l = 0; i < n; i++, l++) lanes[l] += square(direction(theta[i], start[i], fisher[i]));
    return total_of(lanes);
}

typedef struct {
    double squares; /* of the change, as it is after rounding */
    Size count;     /* of entries that went as far as any may */
    double before;  /* squares of the tensor as it was, where a pass has them for nothing */
} Change;

static inline float within(float step, float limit) {
    step = step > limit ? limit : step;
    return step < -limit ? -limit : step;
}

/* Eq. 11: theta + scale * clip(direction, -limit, limit). */
WIDE static Change add_clipped(In theta, In start, In fisher, Out after, Size n, float scale,
                               float limit) {
    double lanes[LANES] = {0};
    uint32_t counts[LANES] = {0};
    Change change = {0};
    Size i = 0;
    for (; i + LANES <= n; i += LANES) FOR_LANES {
        float step = direction(theta[i + l], start[i + l], fisher[i + l]);
        counts[l] += (step >= limit) | (step <= -limit);
        float next = theta[i + l] + scale * within(step, limit);
        lanes[l] += square(next - theta[i + l]);
        after[i + l] = next;
    }
    for (int l = 0; i < n; i++, l++) {
        float step = direction(theta[i], start[i], fisher[i]);
        counts[l] += (step >= limit) | (step <= -limit);
        after[i] = theta[i] + scale * within(step, limit);
        lanes[l] += square(after[i] - theta[i]);
    }
    change.squares = total_of(lanes);
    FOR_LANES change.count += counts[l];
    return change;
}

/* The share F_t / sum_i F_i of an entry: 0 if it is nobody's, 1 if it is nobody else's. */
static inline float share_of(float own, float total) {
    float share = own / total;
    share = share > 0 ? share : 0;
    return share > FLT_MAX ? 1 : share;
}

/* The shares in every `step`th run of LANES entries; returns how many these are. */
WIDE static Size sample_shares(In own, In total, Size n, Size step, Out shares) {
    Size count = 0;
    for (Size i = 0; i + LANES <= n; i += LANES * step, count += LANES)
        FOR_LANES shares[count + l] = share_of(own[i + l], total[i + l]);
    return count;
}

/* A share that has as many others above it as there must be, and how often there is such a one. */
typedef struct {
    uint32_t share;
    Size wanted, equal;
} Last;

/* Even steps of the shares first, which leave few in a bin; then the bits, digit by digit: but
 * for the sign they are in the order of the numbers. */
static inline uint32_t bin_of(uint32_t key, int digit) {
    static const int shifts[] = {0, 21, 10, 0}, masks[] = {0, 1023, 2047, 1023};
    float share;
    if (digit) return key >> shifts[digit] & masks[digit];
    memcpy(&share, &key, sizeof share);
    return (uint32_t)(int)(share < 1 ? share * 2048 : 2047);
}

/* In which bin the wanted key is; its rank becomes that within the bin. */
static inline uint32_t bin_with(const uint32_t *keys, Size n, int digit, Size *rank, Size *size) {
    uint32_t counts[2048] = {0};
    uint32_t bin = 2047;
    for (Size i = 0; i < n; i++) counts[bin_of(keys[i], digit)]++;
    while (*rank > counts[bin]) *rank -= counts[bin--];
    *size = counts[bin];
    return bin;
}

static inline void keep_bin(const uint32_t *keys, Size n, int digit, uint32_t bin, uint32_t *kept) {
    for (Size i = 0, k = 0; i < n; i++)
        if (bin_of(keys[i], digit) == bin) kept[k++] = keys[i];
}

/* The lowest of the `rank` highest shares; none equal to it: there was no memory. */
static Last last_of(const uint32_t *keys, Size n, Size rank) {
    Size size;
    uint32_t bin = bin_with(keys, n, 0, &rank, &size);
    uint32_t *kept = malloc((size_t)size * sizeof *kept);
    if (!kept) return (Last){0};
    keep_bin(keys, n, 0, bin, kept);
    for (int digit = 1; digit < 4; digit++) {
        n = size;
        bin = bin_with(kept, n, digit, &rank, &size);
        keep_bin(kept, n, digit, bin, kept);
    }
    Last last = {kept[0] & INT32_MAX, rank, size};
    free(kept);
    return last;
}

/* An entry that might be reset: its share is inside the bracket. */
typedef struct {
    int64_t place;
    float share, start, theta;
} Candidate;

/* Shares between which the last one to be reset must be, and the entries that have such. */
typedef struct {
    float low, high;
    Candidate *inside;
    Size count, room;
} Bracket;

#define BLOCK 256
static const float NOTHING[BLOCK];

/* ||a - b||^2 of a block; double precision is needed only beyond the range of single. */
static inline double distance_squared(In a, In b, Size n) {
    float lanes[LANES] = {0}, total = 0;
    double exact[LANES] = {0};
    Size i = 0;
    for (; i + LANES <= n; i += LANES)
        FOR_LANES lanes[l] += (a[i + l] - b[i + l]) * (a[i + l] - b[i + l]);
    for (int l = 0; i < n; i++, l++) lanes[l] += (a[i] - b[i]) * (a[i] - b[i]);
    FOR_LANES total += lanes[l];
    if (total > 1e-25f && total <= FLT_MAX) return total;
    for (i = 0; i + LANES <= n; i += LANES) FOR_LANES exact[l] += square(a[i + l] - b[i + l]);
    for (int l = 0; i < n; i++, l++) exact[l] += square(a[i] - b[i]);
    return total_of(exact);
}

/* Reset what is surely above the bracket, and flag what might or might not be.
 *
 * Products tell on which side of the bracket most shares are, and take a fraction of the time
 * of a division; where they might round to the wrong side, the share itself must decide.
 */
static inline Size reset_sure(In own, In total, In theta, In start, Out after, Size n,
                              const Bracket *bracket, uint8_t *restrict unsure) {
    const float above = bracket->high * (1 + 8 * FLT_EPSILON);
    const float below = bracket->low * (1 - 8 * FLT_EPSILON);
    uint32_t count = 0;
    for (Size i = 0; i < n; i++) {
        int yes = own[i] > above * total[i] + FLT_MIN;
        int no = (own[i] < below * total[i] - FLT_MIN) | (own[i] == 0);
        after[i] = yes ? start[i] : theta[i];
        unsure[i] = !(yes | no);
        count += yes;
    }
    return count;
}

/* Reset the one entry after all, or note it as a candidate, as its share says. */
static inline Size decide(In own, In total, In theta, In start, Out after, Size place,
                          Bracket *bracket) {
    float share = share_of(own[place], total[place]);
    bracket->inside[bracket->count] = (Candidate){place, share, start[place], theta[place]};
    bracket->count += (share > bracket->low) & !(share > bracket->high);
    if (!(share > bracket->high)) return 0;
    after[place] = start[place];
    return 1;
}

/* Shares above the bracket are reset, those inside are noted, the others stay. Ends early,
 * with more candidates than there is room for, if too many are inside. */
WIDE static Change reset_above(In own, In total, In theta, In start, Out after, Size n,
                               Bracket *bracket) {
    Change change = {0};
    for (Size first = 0; first < n; first += BLOCK) {
        const Size size = n - first < BLOCK ? n - first : BLOCK;
        uint8_t unsure[BLOCK] = {0};
        if (bracket->count + BLOCK > bracket->room) {
            bracket->count = bracket->room + 1;
            return change;
        }
        change.count += reset_sure(own + first, total + first, theta + first, start + first,
                                   after + first, size, bracket, unsure);
        for (int k = 0; k < BLOCK; k += 8) {
            uint64_t flags;
            memcpy(&flags, unsure + k, sizeof flags);
            for (; flags; flags &= flags - 1) {
                Size place = first + k + __builtin_ctzll(flags) / 8;
                change.count += decide(own, total, theta, start, after, place, bracket);
            }
        }
        change.squares += distance_squared(after + first, theta + first, size);
        change.before += distance_squared(theta + first, NOTHING, size);
    }
    return change;
}

/* Of the candidates those above the cut are reset, too, and the first `ties` of those at the
 * cut; returns how many ties are left for the next tensor. */
static Size reset_candidates(const Candidate *candidates, Size n, Out after, float cut, Size ties,
                             Change *change) {
    for (const Candidate *c = candidates; c < candidates + n; c++) {
        int tie = (c->share == cut) & (ties > 0);
        if (!(c->share > cut) & !tie) continue;
        change->squares += square(c->start - c->theta);
        change->count++;
        after[c->place] = c->start;
        ties -= tie;
    }
    return ties;
}

/* From here on: Python's side. */

typedef unsigned long long Address;
#define AT(address) ((float *)(uintptr_t)(address))

static PyObject *py_sum(PyObject *self, PyObject *args) {
    Address x;
    Size n;
    double found;
    if (!PyArg_ParseTuple(args, "Kn", &x, &n)) return NULL;
    Py_BEGIN_ALLOW_THREADS
    found = sum(AT(x), n);
    Py_END_ALLOW_THREADS
    return PyFloat_FromDouble(found);
}

static PyObject *py_square_sum(PyObject *self, PyObject *args) {
    Address x;
    Size n;
    double found;
    if (!PyArg_ParseTuple(args, "Kn", &x, &n)) return NULL;
    Py_BEGIN_ALLOW_THREADS
    found = square_sum(AT(x), n);
    Py_END_ALLOW_THREADS
    return PyFloat_FromDouble(found);
}

static PyObject *py_direction_square_sum(PyObject *self, PyObject *args) {
    Address theta, start, fisher;
    Size n;
    double found;
    if (!PyArg_ParseTuple(args, "KKKn", &theta, &start, &fisher, &n)) return NULL;
    Py_BEGIN_ALLOW_THREADS
    found = direction_square_sum(AT(theta), AT(start), AT(fisher), n);
    Py_END_ALLOW_THREADS
    return PyFloat_FromDouble(found);
}

static PyObject *py_add_clipped(PyObject *self, PyObject *args) {
    Address theta, start, fisher, after;
    Size n;
    float scale, limit;
    Change found;
    if (!PyArg_ParseTuple(args, "KKKKnff", &theta, &start, &fisher, &after, &n, &scale, &limit))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    found = add_clipped(AT(theta), AT(start), AT(fisher), AT(after), n, scale, limit);
    Py_END_ALLOW_THREADS
    return Py_BuildValue("dn", found.squares, found.count);
}

static PyObject *py_sample_shares(PyObject *self, PyObject *args) {
    Address own, total, shares;
    Size n, step, found;
    if (!PyArg_ParseTuple(args, "KKnnK", &own, &total, &n, &step, &shares)) return NULL;
    Py_BEGIN_ALLOW_THREADS
    found = sample_shares(AT(own), AT(total), n, step, AT(shares));
    Py_END_ALLOW_THREADS
    return PyLong_FromSsize_t(found);
}

static PyObject *py_last_of(PyObject *self, PyObject *args) {
    Address shares;
    Size n, rank;
    Last found;
    float share;
    if (!PyArg_ParseTuple(args, "Knn", &shares, &n, &rank)) return NULL;
    if (rank < 1 || rank > n) {
        PyErr_SetString(PyExc_ValueError, "the rank must be from 1 to the number of shares");
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    found = last_of((const uint32_t *)(uintptr_t)shares, n, rank);
    Py_END_ALLOW_THREADS
    if (!found.equal) return PyErr_NoMemory();
    memcpy(&share, &found.share, sizeof share);
    return Py_BuildValue("fnn", share, found.wanted, found.equal);
}

static PyObject *py_reset_above(PyObject *self, PyObject *args) {
    Address own, total, theta, start, after, inside;
    Size n;
    Bracket bracket = {0};
    Change found;
    if (!PyArg_ParseTuple(args, "KKKKKnffKn", &own, &total, &theta, &start, &after, &n,
                          &bracket.low, &bracket.high, &inside, &bracket.room))
        return NULL;
    bracket.inside = (Candidate *)(uintptr_t)inside;
    Py_BEGIN_ALLOW_THREADS
    found = reset_above(AT(own), AT(total), AT(theta), AT(start), AT(after), n, &bracket);
    Py_END_ALLOW_THREADS
    return Py_BuildValue("dnnd", found.squares, found.count, bracket.count, found.before);
}

static PyObject *py_reset_candidates(PyObject *self, PyObject *args) {
    Address candidates, after;
    Size n, ties;
    float cut;
    Change found = {0};
    if (!PyArg_ParseTuple(args, "KnKfn", &candidates, &n, &after, &cut, &ties)) return NULL;
    const Candidate *first = (const Candidate *)(uintptr_t)candidates;
    Py_BEGIN_ALLOW_THREADS
    ties = reset_candidates(first, n, AT(after), cut, ties, &found);
    Py_END_ALLOW_THREADS
    return Py_BuildValue("dnn", found.squares, found.count, ties);
}

static PyMethodDef functions[] = {
    {"sum", py_sum, METH_VARARGS, NULL},
    {"square_sum", py_square_sum, METH_VARARGS, NULL},
    {"direction_square_sum", py_direction_square_sum, METH_VARARGS, NULL},
    {"add_clipped", py_add_clipped, METH_VARARGS, NULL},
    {"sample_shares", py_sample_shares, METH_VARARGS, NULL},
    {"last_of", py_last_of, METH_VARARGS, NULL},
    {"reset_above", py_reset_above, METH_VARARGS, NULL},
    {"reset_candidates", py_reset_candidates, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef kernels = {
    PyModuleDef_HEAD_INIT, "_kernels", NULL, 0, functions, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__kernels(void) { return PyModule_Create(&kernels); }
