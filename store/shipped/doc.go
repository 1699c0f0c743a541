// Package shipped reads what edges ship: it checks an entry and its objects, so that an engine stores only sound ones,
// and rebuilds an exchange from its parts. Package ship defines the frames; package conversation decides where the
// exchange belongs.
package shipped
