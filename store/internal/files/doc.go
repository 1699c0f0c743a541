// Package files looks after the files of the store's database: before it is opened, while it is in use, and when it is closed.
//
// The database is opened only when all its files are accounted for. Badger deletes tables that its manifest does not
// list, begins an empty database where there is no manifest, cuts a log off at the first record that is wrong, and
// passes over blocks that it cannot read. So its files are read before it sees them.
//
// What a killed process leaves is normal: a record at the end of a log that was not finished, and tables that were not
// listed yet or not removed yet. Logs that are damaged are mended, with the file as it was found kept beside it, so that
// what can be read is served and what is lost has a name. All other damage keeps the store from being opened.
package files
