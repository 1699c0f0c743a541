// Package feed tells the stages after an answer what has happened.
//
// It is one log of ended exchanges and of changed turns and sessions, which each stage reads at its own pace. The writer
// notes changes while it builds a group, and they are committed with the group. A stage has a cursor, up to which it has
// done the log, and a list of changes that it has put aside. Both are in the store, so after a crash the stage resumes
// there: nothing is lost, and unconfirmed changes come again. What all stages have done is removed from the log.
//
// The newest changes are also kept in memory, with the exchange or turn that they are about, until the stages have done
// them: a stage that keeps up reads nothing from the store.
package feed
