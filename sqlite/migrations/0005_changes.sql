-- With AUTOINCREMENT a number is never given twice, also where the table was emptied:
-- a reader that misses a number knows that it missed changes.
CREATE TABLE changes_numbered (
  seq     INTEGER PRIMARY KEY AUTOINCREMENT,
  at      INTEGER NOT NULL,
  kind    INTEGER NOT NULL, -- 1 event accepted, 2 delivery delivered, 3 delivery dead, 4 an endpoint's gate
  entries BLOB    NOT NULL, -- of each 20 bytes: the tenant's number, and the id of the event, delivery or endpoint
  detail  BLOB
);
INSERT INTO changes_numbered (seq, at, kind, entries, detail) SELECT seq, at, kind, entries, detail FROM changes ORDER BY seq;
DROP TABLE changes;
ALTER TABLE changes_numbered RENAME TO changes;
