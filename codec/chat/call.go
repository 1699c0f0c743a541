package chat

// Call is a tool call of a message, for those who read and write whole messages with encoding/json.
type Call struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"` // "function"
	Function CallFunction `json:"function"`
}

// CallFunction is what is called.
type CallFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"` // a JSON object
}

// NewCall gives the call of a function.
func NewCall(id, name, arguments string) Call {
	return Call{ID: id, Type: "function", Function: CallFunction{name, arguments}}
}
