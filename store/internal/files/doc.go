// Package files looks after the files of the store's database: before it is opened, while it is in use, and when it is
// closed.
//
// The database is opened only when all its files are accounted for. Badger deletes tables that its manifest does not
// list, starts an empty database if there is no manifest, truncates a log at the first bad record, and skips blocks
// that it cannot read. So this package reads the files before Badger does.
//
// What a killed process leaves behind is normal: an unfinished record at the end of a log, and tables that are not
// listed yet or not removed yet. A damaged log is mended and the original is kept beside it, so that what is readable
// is served and what is lost is named. Any other damage keeps the store from opening.
package files
