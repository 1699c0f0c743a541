// Package grammar checks that a stream is well-formed in the format of its client: frames, order, numbering, pairing.
//
// The checkers share no code with the encoders. They parse the frames and the JSON in them with the standard library
// and check a stream against the rules of the format's strictest client. Fuzz targets and the tests of several packages
// use them.
package grammar
