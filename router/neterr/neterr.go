// Package neterr has the socket errors that callers distinguish. Windows has its own numbers for them, which differ
// from those that package syscall has under the Unix names.
//
// Use them with errors.Is.
package neterr
