/* The C interface of libvaecf: recommendations of a trained model, computed as `vaecf_dist recommend` does.
 *
 * Experimental until version 1.1: functions and structures may change. docs/C_INTERFACE.md describes the interface
 * with examples.
 *
 * An item is its column in the model, from 0. Every function that returns a status returns VAECF_INVALID for a wrong
 * argument or file, and VAECF_FAILED for an error at run time, with the message vaecf_error(); its outputs are then
 * unspecified. Several threads may use one model at once. No function prints, or keeps a pointer to an argument. */
#ifndef VAECF_H
#define VAECF_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define VAECF_API __attribute__((visibility("default")))
#else
#define VAECF_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vaecf_model vaecf_model;

typedef enum { VAECF_OK = 0, VAECF_FAILED = 1, VAECF_INVALID = 2 } vaecf_status;

/* A sparse matrix in compressed rows. Row r has the columns columns[begin[r]] to columns[begin[r + 1] - 1], ascending
 * and unique, with the values at the same places; `values` NULL: all are 1. All zero: no rows. */
typedef struct {
  int64_t rows;
  const int64_t *begin; /* (rows + 1), from 0 */
  const int32_t *columns;
  const float *values;
} vaecf_rows;

/* Some columns, in any order. */
typedef struct {
  int64_t count;
  const int32_t *columns;
} vaecf_columns;

/* The users of a call, and what is recommended to them. Set all bytes to zero, then `size` and the members that differ
 * from zero. */
typedef struct {
  size_t size;                  /* sizeof(vaecf_request) */
  vaecf_rows histories;         /* (users, items); values are weights, for a model trained with interaction weights only */
  vaecf_rows user_features;     /* (users, user features), or no rows */
  vaecf_rows exclude_of_user;   /* (users, items): never recommended to the user; or no rows */
  const vaecf_columns *include; /* the only items to recommend; NULL: all but new items */
  const vaecf_columns *exclude; /* items never to recommend; NULL: none */
  const vaecf_rows *categories; /* (items, any numbers): the categories of each item; NULL: no limit */
  int32_t at_most;              /* number of items of a category in a list, at least 1 with categories */
  int32_t k;                    /* number of items per user, at least 1 */
  int32_t keep_seen;            /* 1: also recommend items of the history; else 0 */
  int32_t reasons;              /* number of reasons for each item, 0 to 1000 */
  int32_t threads;              /* number of threads, at most those of the model; 0: all of them */
} vaecf_request;

/* Returns the version of the library: 10000 major + 100 minor + patch. */
VAECF_API uint32_t vaecf_version(void);

/* Returns the bytes of memory that this process may still use: those of the machine, or fewer if the limit of a control group
 * is lower; 0 if the system does not provide them. */
VAECF_API int64_t vaecf_free_memory(void);

/* Returns the message of the last error in this thread, valid until its next one; "" if there was none. */
VAECF_API const char *vaecf_error(void);

/* Loads the model of a checkpoint. `options_json`: an object of configuration keys and their values, as of
 * `recommend --set`, such as {"backend.threads": 2}; NULL: none. By default the device is cpu, and it computes in
 * fp32. */
VAECF_API vaecf_status vaecf_open(const char *path, const char *options_json, vaecf_model **model);

/* Frees the model, which no thread may use any more. NULL: does nothing. */
VAECF_API void vaecf_close(vaecf_model *model);

/* Returns a JSON object that describes the model, valid until vaecf_close(); NULL if `model` is. */
VAECF_API const char *vaecf_facts(const vaecf_model *model);

/* Writes the column of each of `count` items by their ids in the source, as text; -1 for an unknown id. */
VAECF_API vaecf_status vaecf_find(const vaecf_model *model, int64_t count, const char *const *ids, int32_t *columns);

/* Writes the id of an item or, with `title` 1, its title, as text that ends with a zero byte and is valid until
 * vaecf_close(). */
VAECF_API vaecf_status vaecf_name(const vaecf_model *model, int32_t column, int title, const char **text,
                                  size_t *length);

/* Writes the columns of user_features that `count` values of columns of the table of users set, ascending, and their
 * number. If that exceeds `capacity`, only the number is written, and the call is invalid. */
VAECF_API vaecf_status vaecf_user_feature_columns(const vaecf_model *model, int64_t count, const char *const *names,
                                                  const char *const *values, int32_t *columns, int64_t capacity,
                                                  int64_t *used);

/* Writes the best items of each user and their scores, (users, k) each, best first. Unused places have item -1 and
 * score -infinity. A user with neither items nor features gets the most popular items with score NaN. With reasons,
 * also writes the items of the user with the largest contributions to each score, and these, (users, k, reasons) each;
 * unused places have -1 and NaN. `because` and `contributions` may be NULL without reasons. */
VAECF_API vaecf_status vaecf_recommend(const vaecf_model *model, const vaecf_request *request, int32_t *items,
                                       float *scores, int32_t *because, float *contributions);

/* Writes the scores of all items for each user, (users, items); NaN for a user with neither items nor features. Only
 * `size`, `histories`, `user_features` and `threads` of the request are used. */
VAECF_API vaecf_status vaecf_score(const vaecf_model *model, const vaecf_request *request, float *scores);

/* Writes the k items most similar to each of `items`, and the similarities, (count, k) each, as `vaecf_dist similar`
 * does. Unused places have item -1 and score -infinity. */
VAECF_API vaecf_status vaecf_similar(const vaecf_model *model, vaecf_columns items, int32_t k, int32_t *similar,
                                     float *scores);

/* Writes the vectors of `count` items from column `first`, (count, width); `width` must be "vector_width" of
 * vaecf_facts(). The score of an item for a user is the inner product of their vectors, for a network with the
 * squared loss its sigmoid, up to rounding. Invalid for a model of weights between items, whose
 * vector_width is 0. */
VAECF_API vaecf_status vaecf_item_vectors(const vaecf_model *model, int64_t first, int64_t count, int32_t width,
                                          float *vectors);

/* Writes the vectors of the request's users, (users, width). Only `size`, `histories`, `user_features` and `threads` of
 * the request are used. */
VAECF_API vaecf_status vaecf_user_vectors(const vaecf_model *model, const vaecf_request *request, int32_t width,
                                          float *vectors);

#ifdef __cplusplus
}
#endif

#endif
