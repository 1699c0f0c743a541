package cluster

// Edge is a node that ships what it records, follows the roster of its centre, and finds exchanges that other nodes
// have answered. [Join] starts it, and Close ends it.
type Edge struct {
	*Shipper
	follower  *follower
	reasoning *reasoning
	leases    *renewing     // nil: limits are not shared
	carrying  *carrying     // nil: this edge erases for itself
	finding   chan struct{} // semaphore of searches at other nodes
}
