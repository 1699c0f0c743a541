package chat

// Call is a tool call of a message, for code that reads and writes whole messages with encoding/json.
type Call struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"` // "function"
	Function CallFunction `json:"function"`
}

// CallFunction is the called function.
type CallFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"` // a JSON object
}

// NewCall returns a function call.
func NewCall(id, name, arguments string) Call {
	return Call{ID: id, Type: "function", Function: CallFunction{name, arguments}}
}
