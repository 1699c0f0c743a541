package clients

// generic is every other program: Qwen Code and the SDKs send no ids, so their conversations are
// distinguished by their opening messages (docs/wire/clients.md#1).
var generic = client{
	headers: []string{"User-Agent"},
	titles:  []string{"generate a title for"},
}
