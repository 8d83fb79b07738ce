// The tables of a label database.
#pragma once

#include <string_view>

namespace ndtrain {

// Keys are integers: random 32-byte keys make every insert touch another page. Exactly one label of
// each (task, photo) has current = 1; the partial indexes hold that and serve the queries.
inline constexpr std::string_view kSchema1 = R"sql(
CREATE TABLE collections (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE
);
CREATE TABLE photos (
  id INTEGER PRIMARY KEY,
  sha256 BLOB NOT NULL UNIQUE CHECK (length(sha256) = 32)
);
CREATE TABLE places (
  collection INTEGER NOT NULL REFERENCES collections (id),
  path TEXT NOT NULL,
  photo INTEGER NOT NULL REFERENCES photos (id),
  PRIMARY KEY (collection, path)
) WITHOUT ROWID;
CREATE INDEX places_photo ON places (collection, photo, path);

CREATE TABLE tasks (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE
);
CREATE TABLE classes (
  task INTEGER NOT NULL REFERENCES tasks (id),
  id INTEGER NOT NULL,
  name TEXT NOT NULL,
  PRIMARY KEY (task, id),
  UNIQUE (task, name)
) WITHOUT ROWID;
CREATE TABLE versions (
  id INTEGER PRIMARY KEY,
  task INTEGER NOT NULL REFERENCES tasks (id),
  content BLOB NOT NULL CHECK (length(content) = 32),
  parent INTEGER REFERENCES versions (id),
  created INTEGER NOT NULL,
  metrics TEXT NOT NULL,
  UNIQUE (task, content),
  UNIQUE (task, id)
);

CREATE TABLE labels (
  id INTEGER PRIMARY KEY,
  photo INTEGER NOT NULL REFERENCES photos (id),
  task INTEGER NOT NULL,
  class INTEGER NOT NULL,
  score REAL,
  top_k TEXT,
  source INTEGER NOT NULL CHECK (source BETWEEN 1 AND 4),
  version INTEGER,
  time INTEGER NOT NULL,
  current INTEGER NOT NULL CHECK (current IN (0, 1)),
  CHECK ((source = 1) = (version IS NOT NULL)),
  FOREIGN KEY (task, class) REFERENCES classes (task, id),
  FOREIGN KEY (task, version) REFERENCES versions (task, id)
);
CREATE UNIQUE INDEX labels_once ON labels (version, photo) WHERE version IS NOT NULL;
CREATE UNIQUE INDEX labels_current ON labels (task, photo) WHERE current = 1;
CREATE INDEX labels_class ON labels (task, class, photo) WHERE current = 1;
CREATE INDEX labels_history ON labels (photo, task, source);
)sql";

}  // namespace ndtrain
