#pragma once

#include <string>
#include <utility>
#include <vector>

namespace vaecf::app {

/// Arguments of `recommend`.
struct RecommendArguments {
  std::string checkpoint;       ///< empty: best.h5 of the configuration's run folder
  std::string input;            ///< file of user,item lines; empty: users of `split`
  std::string weight_column{};  ///< column of weights in `input`; empty: as in `data.source`
  std::string user_features;    ///< table of features of new users; empty: none
  std::string split = "all";
  std::vector<std::string> user;  ///< ids in the source of the only users
  std::string users;              ///< file of ids of the only users; both empty: all users
  int top = 10;
  bool keep_seen = false;               ///< also recommend items that the user already has
  std::string exclude;                  ///< file of items never to recommend; empty: none
  std::string exclude_pairs;            ///< file of users and items never to recommend to them; empty: none
  std::string include;                  ///< file of the only items to recommend; empty: all but new items
  std::pair<std::string, int> at_most;  ///< file of the categories of items, and the maximum number of items
                                        ///< of a category in a list; empty: no limit
  std::string category_column{};        ///< column of categories in that file; empty: as in docs/RECOMMEND.md
  int reasons = 0;                      ///< number of the user's items named as reasons for each item
  bool stream = false;                  ///< answer JSON lines of standard input
  bool titles = false;                  ///< add a column of titles
  std::string output;                   ///< empty: standard output
  std::string format;                   ///< tsv, csv, jsonl, json, hdf5; empty: by the output's ending
};

}  // namespace vaecf::app
