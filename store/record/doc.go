// Package record is what the memory holds: exchanges, sessions, turns, summaries, rollups, erasures and recollections,
// their ids, and their encodings. Every engine, and everything that reads memory, shares these types.
//
// A record is a value. Nothing here opens a file, starts a goroutine, or knows where records are kept; no function
// waits. The engines under the store decide when a record is written and who may change it.
//
//   - [Opening] and [Closing] are what a server says of an exchange when it begins and ends. [InfoOf] and [Close] make
//     an [ExchangeInfo] from them, which is the record of the exchange. A new fact about exchanges is a field in one of
//     the two and a field of ExchangeInfo with the next number in exchange_record.go.
//   - [Session] is what lists show of a conversation, [StoredSession] its record, with the links that lead to it.
//     [Clue] and [LinkKey] are the evidence by which an exchange finds its session.
//   - [Turn] is what an exchange added to its session, [StoredTurn] its record. Its text is stored as a delta against
//     the bytes of its exchange where that is much shorter, see turn_text.go.
//   - [Rollup] sums up usage and cost of one hour.
//   - [Erasure] is a receipt; [Selection] says what it erases.
//
// Records of numbered fields are Protocol Buffers messages, encoded and decoded by hand in encoding.go because a
// captured exchange encodes four of them: no reflection, and all texts of a record share one allocation. [Encode] and
// [Decode] are the only entrances. store/FORMAT.md lists the numbers. A reader skips numbers that it does not know; a
// field with its zero value is absent; a number is never used again for something else. Small records that change often
// (receipts, recollections, summaries) are JSON, see kv.EncodeRecord; [Decode] reads both.
//
// Texts in records are masked before they get here: [Opening.Redact], [RedactInfo], [RedactSession] and
// [RedactDescription] do it for what comes from outside.
package record
