package ship

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// Packet is a frame, or part of a frame that is too large for one message.
type Packet struct {
	Node        uint16
	Log         LogID
	After, Last uint64
	Tail        Tail
	Whole       bool   // see [Frame]
	Part, Parts uint64 // index of this part from 0, and number of parts
	Payload     []byte // of the frame's entries
}

// Fields of a packet.
const (
	packetNode    = 1
	packetLog     = 2
	packetAfter   = 3
	packetLast    = 4
	packetPart    = 5
	packetParts   = 6
	packetPayload = 7
	packetWhole   = 8
	packetTail    = 9
)

// Packets returns the messages of a frame, all of one kind, each with at most size bytes of its entries.
func (f *Frame) Packets(k *Key, kind Kind, size int) (messages [][]byte) {
	rest := AppendEntries(nil, f.Entries)
	p := Packet{Node: f.Node, Log: f.Log, After: f.After, Last: f.Last, Tail: f.Tail, Whole: f.Whole, Parts: uint64(max(1, (len(rest)+size-1)/size))}
	for ; p.Part < p.Parts; p.Part++ {
		n := min(size, len(rest))
		p.Payload, rest = rest[:n], rest[n:]
		messages = append(messages, k.Seal(kind, p.append(nil)))
	}
	return messages
}

func (p *Packet) append(dst []byte) []byte {
	dst = appendNumber(dst, packetNode, uint64(p.Node))
	dst = appendBytes(dst, packetLog, p.Log[:])
	dst = appendNumber(dst, packetAfter, p.After)
	dst = appendNumber(dst, packetLast, p.Last)
	dst = appendNumber(dst, packetPart, p.Part)
	dst = appendNumber(dst, packetParts, p.Parts)
	dst = appendNumber(dst, packetWhole, protowire.EncodeBool(p.Whole))
	dst = appendBytes(dst, packetTail, p.Tail[:])
	return appendBytes(dst, packetPayload, p.Payload)
}

func appendNumber(dst []byte, field protowire.Number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(dst, field, protowire.VarintType), n)
}

// OpenPacket verifies and decodes a packet, which points into the message. The errors are those of [Key.Open], or that
// of an impossible packet.
func OpenPacket(k *Key, kind Kind, message []byte) (p Packet, err error) {
	body, err := k.Open(kind, message)
	if err != nil {
		return p, err
	}
	err = eachField(body, func(field protowire.Number, number uint64, value []byte) error {
		switch field {
		case packetNode:
			p.Node = uint16(number)
		case packetLog:
			return fixed(p.Log[:], value)
		case packetTail:
			return fixed(p.Tail[:], value)
		case packetAfter:
			p.After = number
		case packetLast:
			p.Last = number
		case packetPart:
			p.Part = number
		case packetParts:
			p.Parts = number
		case packetWhole:
			p.Whole = protowire.DecodeBool(number)
		case packetPayload:
			p.Payload = value
		}
		return nil
	})
	if err == nil && (p.Last <= p.After || p.Part >= p.Parts) {
		err = errMalformed
	}
	return p, err
}

// Joiner joins the packets of one log to frames. It holds the parts of at most one frame.
type Joiner struct {
	next Packet // next missing packet of the current frame, without payload; Parts is 0: there is no current frame
	held []byte // entries so far
}

// Held returns the number of bytes held.
func (j *Joiner) Held() int { return len(j.held) }

// Drop forgets an incomplete frame.
func (j *Joiner) Drop() { *j = Joiner{} }

// Add adds a packet and returns the frame that it completes, or nil. A part that is not the next one of its frame is
// dropped with all that came before: its sender sends them again.
func (j *Joiner) Add(p *Packet) (*Frame, error) {
	whole := p.Payload
	if p.Parts > 1 {
		if p.Part == 0 {
			j.next, j.held = *p, nil
		}
		if !j.next.is(p) {
			j.Drop()
			return nil, nil //nolint:nilnil // there is no complete frame yet
		}
		j.held = append(j.held, p.Payload...)
		if j.next.Part++; j.next.Part < j.next.Parts {
			return nil, nil //nolint:nilnil // there is no complete frame yet
		}
		whole = j.held
	}
	j.Drop()
	entries, err := ReadEntries(whole)
	if err != nil {
		return nil, err
	}
	return &Frame{Node: p.Node, Log: p.Log, After: p.After, Last: p.Last, Tail: p.Tail, Whole: p.Whole, Entries: entries}, nil
}

// is reports whether two packets are the same part of the same frame.
func (p *Packet) is(q *Packet) bool {
	return p.Node == q.Node && p.Whole == q.Whole && p.Log == q.Log && p.After == q.After && p.Last == q.Last && p.Tail == q.Tail && p.Part == q.Part && p.Parts == q.Parts
}
