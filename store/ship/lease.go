package ship

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// Share identifies a limit of which each node leases a part.
type Share struct {
	Limit   string // its name
	Account string // of a budget; otherwise ""
	Key     string // id; "": the budget is the account's
	Period  int64  // number of the day or month that the limit applies to; 0: it has no period
}

// Use is a node's report on its part of a limit, in the unit of the limit.
type Use struct {
	Share
	Most    int64 // the whole limit
	Used    int64 // since the node started counting
	Counted int64 // part of Used that the centre has confirmed
	Held    int64 // reserved by open requests, or their number
	Want    int64 // largest amount that was refused; [GiveBack]: the node does not need its part now
}

// GiveBack is a value of [Use.Want].
const GiveBack = -1

// Lease is the part of a limit that a node may use.
type Lease struct {
	Room int64 // beyond Used, for held amounts as well
	Left int64 // of the whole limit, including what other nodes hold
}

// LeaseRequest asks for parts of limits.
type LeaseRequest struct {
	Nonce  [16]byte
	Server string // the node, and which of its starts
	Uses   []Use
}

// Leases is the reply: a lease for each use, in the same order.
type Leases struct {
	Nonce   [16]byte
	Servers int64 // that currently share limits
	Leases  []Lease
}

// Fields of a request and its reply, of a use, and of a lease.
const (
	leaseNonce   = 1
	leaseServer  = 2
	leaseUse     = 3
	leaseServers = 4
	leaseLease   = 5

	useLimit   = 1
	useAccount = 2
	useKey     = 3
	usePeriod  = 4
	useMost    = 5
	useUsed    = 6
	useCounted = 7
	useHeld    = 8
	useWant    = 9

	leaseRoom = 1
	leaseLeft = 2
)

// appendSigned appends a number that may be negative.
func appendSigned(dst []byte, field protowire.Number, n int64) []byte {
	return appendNumber(dst, field, protowire.EncodeZigZag(n))
}

// Seal encodes and signs a request.
func (r *LeaseRequest) Seal(k *Key) []byte {
	body := appendBytes(nil, leaseNonce, r.Nonce[:])
	body = appendBytes(body, leaseServer, []byte(r.Server))
	for i := range r.Uses {
		body = appendBytes(body, leaseUse, r.Uses[i].append(nil))
	}
	return k.Seal(KindLeaseRequest, body)
}

func (u *Use) append(dst []byte) []byte {
	dst = appendBytes(dst, useLimit, []byte(u.Limit))
	dst = appendBytes(dst, useAccount, []byte(u.Account))
	dst = appendBytes(dst, useKey, []byte(u.Key))
	for field, n := range map[protowire.Number]int64{
		usePeriod: u.Period, useMost: u.Most, useUsed: u.Used, useCounted: u.Counted, useHeld: u.Held, useWant: u.Want,
	} {
		dst = appendSigned(dst, field, n)
	}
	return dst
}

// OpenLeaseRequest verifies and decodes a message of [LeaseRequest.Seal].
func OpenLeaseRequest(k *Key, message []byte) (r LeaseRequest, err error) {
	err = k.eachField(KindLeaseRequest, message, func(field protowire.Number, _ uint64, value []byte) error {
		switch field {
		case leaseNonce:
			return fixed(r.Nonce[:], value)
		case leaseServer:
			r.Server = string(value)
		case leaseUse:
			u, err := readUse(value)
			r.Uses = append(r.Uses, u)
			return err
		}
		return nil
	})
	return r, err
}

func readUse(message []byte) (u Use, err error) {
	err = eachField(message, func(field protowire.Number, number uint64, value []byte) error {
		n := protowire.DecodeZigZag(number)
		switch field {
		case useLimit:
			u.Limit = string(value)
		case useAccount:
			u.Account = string(value)
		case useKey:
			u.Key = string(value)
		case usePeriod:
			u.Period = n
		case useMost:
			u.Most = n
		case useUsed:
			u.Used = n
		case useCounted:
			u.Counted = n
		case useHeld:
			u.Held = n
		case useWant:
			u.Want = n
		}
		return nil
	})
	if err == nil && (u.Most < 0 || u.Held < 0 || !u.plausible()) {
		err = errMalformed
	}
	return u, err
}

// plausible reports whether no sum of two of the numbers can overflow.
func (u *Use) plausible() bool {
	for _, n := range [...]int64{u.Used, u.Counted, u.Held, u.Want} {
		if n > math.MaxInt64/4 || n < math.MinInt64/4 {
			return false
		}
	}
	return true
}

// Seal encodes and signs the reply.
func (l *Leases) Seal(k *Key) []byte {
	body := appendBytes(nil, leaseNonce, l.Nonce[:])
	body = appendSigned(body, leaseServers, l.Servers)
	for _, lease := range l.Leases {
		body = appendBytes(body, leaseLease, appendSigned(appendSigned(nil, leaseRoom, lease.Room), leaseLeft, lease.Left))
	}
	return k.Seal(KindLeases, body)
}

// OpenLeases verifies and decodes a message of [Leases.Seal].
func OpenLeases(k *Key, message []byte) (l Leases, err error) {
	err = k.eachField(KindLeases, message, func(field protowire.Number, number uint64, value []byte) error {
		switch field {
		case leaseNonce:
			return fixed(l.Nonce[:], value)
		case leaseServers:
			l.Servers = protowire.DecodeZigZag(number)
		case leaseLease:
			lease, err := readLease(value)
			l.Leases = append(l.Leases, lease)
			return err
		}
		return nil
	})
	return l, err
}

func readLease(message []byte) (l Lease, err error) {
	err = eachField(message, func(field protowire.Number, number uint64, _ []byte) error {
		switch field {
		case leaseRoom:
			l.Room = protowire.DecodeZigZag(number)
		case leaseLeft:
			l.Left = protowire.DecodeZigZag(number)
		}
		return nil
	})
	return l, err
}
