//go:build !linux

package edge

import "context"

// departures does nothing on this system: [lookout] notices when clients leave.
type departures struct{}

func watchDepartures(context.Context) (*departures, error) { return &departures{}, nil }

func (*departures) watch(*connection) bool { return false }
func (*departures) forget(*connection)     {}
func (*departures) wait()                  {}

func unreadBytes(uintptr) int { return 0 }
