// Package cluster ships what edges record to a centre, through NATS JetStream.
//
// An edge is a server with a store of its own. Its [Shipper] reads the log of ended exchanges, publishes it frame by
// frame, and removes entries from the log once the centre has confirmed them. The [Centre] reads the frames in the
// order of their publication and keeps each once. The brokers are a pipe and never the archive: until the centre has
// confirmed, the edge's store has everything, so that brokers may lose what they hold. The edge then notices that its
// mark does not advance, and ships again from there.
//
// All messages between nodes are signed with the key of the cluster, see package ship. Only this package imports the
// NATS client.
package cluster
