package provider

import (
	"encoding/base64"
	"encoding/binary"
	"hash/fnv"
	"math"
	"net/http"
	"strconv"
	"strings"
	"unicode"
)

// A grid is what dimensions an embedding model offers (docs/wire/embeddings.md#5).
type grid struct {
	prefix  string
	native  int   // the default
	lowest  int   // of a free choice up to native; 0 when there is none
	sizes   []int // of a fixed choice
	perCall int   // inputs in one request
	unit    bool  // shortened vectors are unit length again
}

// grids in order of preference; the last one stands for every model that is not listed.
var grids = []grid{
	{prefix: "text-embedding-3-small", native: 1536, lowest: 1, perCall: 2048, unit: true},
	{prefix: "text-embedding-3-large", native: 3072, lowest: 1, perCall: 2048, unit: true},
	{prefix: "text-embedding-ada-002", native: 1536, perCall: 2048, unit: true},
	{prefix: "gemini-embedding-001", native: 3072, lowest: 128, perCall: 100},
	{prefix: "gemini-embedding", native: 3072, lowest: 128, perCall: 100, unit: true},
	{prefix: "voyage-", native: 1024, sizes: []int{256, 512, 1024, 2048}, perCall: 1000, unit: true},
	{prefix: "mistral-embed", native: 1024, perCall: 512, unit: true},
	{prefix: "codestral-embed", native: 1536, sizes: []int{256, 512, 1024, 1536, 3072}, perCall: 512, unit: true},
	{prefix: "", native: 1024, lowest: 1, perCall: 2048, unit: true},
}

func gridOf(model string) *grid {
	for i := range grids {
		if strings.HasPrefix(model, grids[i].prefix) {
			return &grids[i]
		}
	}
	return &grids[len(grids)-1]
}

// legal reports whether the model offers this size.
func (g *grid) legal(size int) bool {
	for _, offered := range g.sizes {
		if size == offered {
			return true
		}
	}
	return g.lowest > 0 && size >= g.lowest && size <= g.native
}

// embed makes the vector of a text: each word adds a direction of its own, so that texts with words in common
// lie close to each other. The same text always gets the same vector; shorter vectors are prefixes of longer ones.
func embed(text string, g *grid, size int) []float32 {
	vector := make([]float32, max(size, g.native))
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
	if len(words) == 0 {
		words = []string{text}
	}
	for _, word := range words {
		hash := fnv.New64a()
		hash.Write([]byte(word))
		state := hash.Sum64()
		for i := range vector {
			vector[i] += float32(int32(splitMix(&state))) / math.MaxInt32
		}
	}
	normalize(vector)
	if size < len(vector) {
		vector = vector[:size]
		if g.unit {
			normalize(vector)
		}
	}
	return vector
}

// splitMix steps the SplitMix64 generator.
func splitMix(state *uint64) uint64 {
	*state += 0x9e3779b97f4a7c15
	z := *state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func normalize(vector []float32) {
	var sum float64
	for _, v := range vector {
		sum += float64(v) * float64(v)
	}
	if sum == 0 {
		return
	}
	scale := float32(1 / math.Sqrt(sum))
	for i := range vector {
		vector[i] *= scale
	}
}

func appendFloats(dst []byte, vector []float32) []byte {
	dst = append(dst, '[')
	for i, v := range vector {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendFloat(dst, float64(v), 'g', -1, 32)
	}
	return append(dst, ']')
}

// appendBase64 appends a vector as little-endian float32 in a base64 string.
func appendBase64(dst []byte, vector []float32) []byte {
	packed := make([]byte, 4*len(vector))
	for i, v := range vector {
		binary.LittleEndian.PutUint32(packed[4*i:], math.Float32bits(v))
	}
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, packed)
	return append(dst, '"')
}

// embeddings answers POST /v1/embeddings. The script may stand in the model name or in the first input.
func (s *Server) embeddings(c *call) error {
	if err := c.read(openaiErrors{}); err != nil {
		return err
	}
	model, marker := cutMarker(c.object.text("model"))
	inputs, refusal := embeddingInputs(c.object, gridOf(model))
	if refusal == nil && s.options.Strict {
		refusal = checkEmbeddings(c.object, model)
	}
	if refusal != nil {
		return refusal
	}
	g := gridOf(model)
	size := g.native
	for _, name := range []string{"dimensions", "output_dimension"} {
		if asked, ok := c.object.number(name); ok {
			if size = int(asked); !g.legal(size) {
				return refuse(name, "Invalid value for '%s': %s does not support %d dimensions.", name, model, size)
			}
		}
	}
	plan, err := c.embeddingPlan(marker, inputs[0])
	if plan == nil {
		return err
	}
	appendVector := appendFloats
	if c.object.text("encoding_format") == "base64" {
		appendVector = appendBase64
	}
	body := []byte(`{"object":"list","data":[`)
	tokens := 0
	for i, input := range inputs {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, `{"object":"embedding","index":`...)
		body = strconv.AppendInt(body, int64(i), 10)
		body = append(body, `,"embedding":`...)
		body = append(appendVector(body, embed(input, g, size)), '}')
		tokens += len(input)/4 + 1
	}
	body = append(body, `],"model":`...)
	body = appendString(body, model)
	total := strconv.Itoa(tokens)
	body = append(body, `,"usage":{"prompt_tokens":`+total+`,"total_tokens":`+total+`}}`...)
	return deliver(c.w, plan, http.StatusOK, body)
}

// embeddingPlan plays the script of an embedding request. Without a plan the answer has been given, or the error
// says what to answer.
func (c *call) embeddingPlan(marker, input string) (*delivery, error) {
	if marker == "" {
		marker = input
	}
	parsed, found, err := findScript(marker)
	if err != nil {
		return nil, refuse("", "The script in the request cannot be played: %v", err)
	}
	if !found {
		return &delivery{}, nil
	}
	s := &parsed.steps[0]
	if err := pause(c.r.Context(), s.delivery.beforeHeader+s.delivery.beforeFirst); err != nil {
		return nil, errClientGone
	}
	if s.fault != nil && c.server.stillFailing(c.body, s.faultTimes) {
		return nil, c.fail(s.fault, &s.delivery)
	}
	if s.delivery.instead != insteadNothing {
		return nil, deliverInstead(c.w, &s.delivery)
	}
	return &s.delivery, nil
}

// embeddingInputs reads the four shapes of input. Token arrays become texts of their numbers.
func embeddingInputs(o object, g *grid) ([]string, *fault) {
	invalid := refuse("input", "'$.input' is invalid. Please check the API reference: https://platform.openai.com/docs/api-reference.")
	if text, ok := parseString(o["input"]); ok {
		if text == "" {
			return nil, invalid
		}
		return []string{text}, nil
	}
	list := o.list("input")
	if len(list) == 0 {
		return nil, invalid
	}
	if c := list[0][0]; c >= '0' && c <= '9' {
		if !isTokenArray(list) {
			return nil, invalid
		}
		return []string{string(o["input"])}, nil
	}
	if len(list) > g.perCall {
		return nil, refuse("input", "Invalid 'input': array too long. Expected an array with maximum length %d, but got an array with length %d instead.", g.perCall, len(list)).coded("array_above_max_length")
	}
	inputs := make([]string, len(list))
	for i, value := range list {
		text, isText := parseString(value)
		tokens, isTokens := parseList(value)
		switch {
		case isText && text != "" && list[0][0] == '"':
			inputs[i] = text
		case isTokens && len(tokens) > 0 && isTokenArray(tokens) && list[0][0] == '[':
			inputs[i] = string(value)
		default:
			return nil, invalid
		}
	}
	return inputs, nil
}

func isTokenArray(list []raw) bool {
	for _, value := range list {
		if _, err := strconv.ParseUint(string(value), 10, 32); err != nil {
			return false
		}
	}
	return true
}

// embedContent answers one Gemini embedding request.
func (s *Server) embedContent(c *call, model string) error {
	if err := c.read(geminiFormat{}); err != nil {
		return err
	}
	model, marker := cutMarker(model)
	text, vector, refusal := geminiVector(c.object, model, s.options.Strict)
	if refusal != nil {
		return refusal
	}
	plan, err := c.embeddingPlan(marker, text)
	if plan == nil {
		return err
	}
	body := append(appendFloats([]byte(`{"embedding":{"values":`), vector), `}}`...)
	return deliver(c.w, plan, http.StatusOK, body)
}

// batchEmbedContents answers many in their order.
func (s *Server) batchEmbedContents(c *call, model string) error {
	if err := c.read(geminiFormat{}); err != nil {
		return err
	}
	model, marker := cutMarker(model)
	requests := c.object.list("requests")
	if n := gridOf(model).perCall; len(requests) == 0 || len(requests) > n {
		return refuse("requests", "* BatchEmbedContentsRequest.requests: between 1 and %d requests can be in one batch, got %d", n, len(requests))
	}
	body := []byte(`{"embeddings":[`)
	first := ""
	for i, value := range requests {
		request, _ := parseObject(value)
		text, vector, refusal := geminiVector(request, model, s.options.Strict)
		if refusal != nil {
			return refusal
		}
		if i == 0 {
			first = text
		} else {
			body = append(body, ',')
		}
		body = append(appendFloats(append(body, `{"values":`...), vector), '}')
	}
	plan, err := c.embeddingPlan(marker, first)
	if plan == nil {
		return err
	}
	return deliver(c.w, plan, http.StatusOK, append(body, `]}`...))
}

// geminiVector answers one request object: all its parts make one vector.
func geminiVector(request object, model string, strict bool) (text string, vector []float32, refusal *fault) {
	if strict {
		if refusal := checkGeminiEmbedding(request, model); refusal != nil {
			return "", nil, refusal
		}
	}
	text = geminiTurn(request["content"]).text
	if text == "" {
		return "", nil, refuse("content", "content is empty")
	}
	g := gridOf(model)
	size := g.native
	if asked, ok := request.number("outputDimensionality"); ok {
		if size = int(asked); !g.legal(size) {
			return "", nil, refuse("output_dimensionality", "outputDimensionality must be between %d and %d", g.lowest, g.native)
		}
	}
	return text, embed(text, g, size), nil
}
