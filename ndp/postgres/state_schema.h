// The tables of a role's state on a server, all of one schema.
#pragma once

namespace ndtrain::ndp::postgres {

inline constexpr int kStateFormat = 1;

// A file that was removed while somebody had it open has no path any more. A chunk begins at a
// byte of its file, and the next where it ends; each append adds some of at most 1 MiB.
inline constexpr const char* kStateSchema = R"sql(
CREATE SCHEMA ndtrain_state;
CREATE TABLE ndtrain_state.lease (
  one BOOLEAN PRIMARY KEY DEFAULT true CHECK (one),
  format BIGINT NOT NULL,
  term BIGINT NOT NULL,
  holder BYTEA NOT NULL,
  until TIMESTAMPTZ NOT NULL
);
INSERT INTO ndtrain_state.lease (format, term, holder, until) VALUES (1, 0, '', '-infinity');
CREATE TABLE ndtrain_state.files (
  id BIGSERIAL PRIMARY KEY,
  path BYTEA UNIQUE,
  parent BYTEA NOT NULL,
  directory BIGINT NOT NULL,
  size BIGINT NOT NULL DEFAULT 0,
  mtime BIGINT NOT NULL
);
CREATE INDEX files_by_parent ON ndtrain_state.files (parent);
CREATE TABLE ndtrain_state.chunks (
  file BIGINT NOT NULL REFERENCES ndtrain_state.files (id) ON DELETE CASCADE,
  start BIGINT NOT NULL,
  bytes BYTEA NOT NULL,
  PRIMARY KEY (file, start)
);
ALTER TABLE ndtrain_state.chunks ALTER COLUMN bytes SET STORAGE EXTERNAL;
)sql";

}  // namespace ndtrain::ndp::postgres
