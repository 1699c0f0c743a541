// Package cputime measures processor time, which other work on the machine does not affect.
package cputime
