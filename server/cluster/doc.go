// Package cluster ships what edges record to a centre, through NATS JetStream.
//
// An edge is a server with a store of its own. Its [Shipper] reads the log of what has ended there, publishes it frame by
// frame, and takes out of the log what the centre has confirmed. The [Centre] reads the frames in the order in which they
// were published and keeps each once. The brokers are a pipe and never the archive: until the centre has confirmed, the
// edge's store has everything, so that brokers may lose what they hold. The edge then finds that its mark stands still and
// ships again from there.
//
// Everything that nodes send each other is signed with the key of the cluster, see package ship. This package is the only one
// that imports the client of NATS.
package cluster
