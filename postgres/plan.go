package postgres

// How statements are written here, and why.
//
// A cached plan is made once, for any parameters, and often while a table is
// empty: today's partition at midnight, due in a healthy system, all of them in
// a new database. To the planner every way through an empty table costs the
// same, and the one that it takes then stays while the table grows, until
// somebody analyses it. So a statement leaves it no choice:
//
//   - Rows that a batch names are found by a lateral subquery with a limit (or a
//     lock), which can't be turned into a join: one descent of the key's index
//     for each row of the batch.
//   - They are changed by their ctid, which has no other way in. Where the values come
//     from the batch that is a join, and a scan by ctid is the cheapest way into
//     a table of any size, as long as one row of the batch is expected; see anyID.
//   - A test whether a batch's row is in what another part of the statement
//     returned is a sub-plan with a hash table. As a join of two lists that the
//     planner takes for short, it would be a loop over both.
//   - Sequential and bitmap scans, hash and merge joins are switched off for our sessions.
//   - An index that could serve but must not is kept out: by a condition on a
//     pair of columns that only the other index begins with, or by adding 0.
//
// TestHotPlans holds the statements to it.

// anyID is true of every id. As a condition on the rows of an array it makes the
// planner expect one of them, where it would expect ten.
const anyID = `between '00000000-0000-0000-0000-000000000000' and 'ffffffff-ffff-ffff-ffff-ffffffffffff'`
