// Package check verifies the invariants of FORMAT.md, and repairs what follows from the exchanges.
package check
