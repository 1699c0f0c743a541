// Package cputime measures in processor time, which other work on the machine does not change.
package cputime
