// Package codec is the vocabulary of the wire formats: bytes in, events out, bytes out.
//
// It holds what every format has in common: the [Format] names, the request [Envelope], the format-neutral [Request],
// the stream [Event], the folded [Answer], the one [Error] type, and the two interfaces that a format implements,
// [ClientCodec] and [ProviderCodec]. The formats themselves are sub-packages; each is written once and joined to any
// other by codec/crossing.
//
// Nothing in this package touches a network, a disk or a clock.
package codec
