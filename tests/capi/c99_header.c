#include <vaecf.h>

/* A request of zeros is one without users. */
vaecf_request make_request(void);

vaecf_request make_request(void) {
  vaecf_request request = {0};
  request.size = sizeof request;
  request.k = 10;
  return request;
}
