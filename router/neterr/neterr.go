// Package neterr names the failures of sockets that callers tell apart. Windows has numbers of its own for them, which
// are not those that package syscall has under the names of Unix.
//
// Each is for errors.Is.
package neterr
