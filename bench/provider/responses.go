package provider

import (
	"strings"
)

// responsesFormat is Responses.
type responsesFormat struct {
	openaiErrors
	stored *storedAnswers
}

func (f responsesFormat) read(c *call, strict bool) (*prompt, *fault) {
	p := &prompt{members: c.object, stream: c.object.flag("stream")}
	p.model, p.marker = cutMarker(c.object.text("model"))
	var previous storedAnswer
	previousID := c.object.text("previous_response_id")
	if previousID != "" {
		var known bool
		if previous, known = f.stored.get(previousID); !known {
			f := refuse("previous_response_id", "Previous response with id '%s' not found.", previousID).coded("previous_response_not_found")
			f.status = 404
			return nil, f
		}
	}
	items := c.object.list("input")
	if strict {
		if refusal := checkResponses(c.object, p.model, items, previous.calls, f.stored); refusal != nil {
			return nil, refusal
		}
	}
	p.tools = responsesTools(nil, c.object.list("tools"), "")
	for _, value := range items {
		if item, _ := parseObject(value); item.text("type") == "additional_tools" {
			p.tools = responsesTools(p.tools, item.list("tools"), "")
		}
	}
	if format := c.object.object("text").object("format"); format.text("type") == "json_schema" {
		p.schema = format["schema"]
	} else if format.text("type") == "json_object" {
		p.schema = raw("{}")
	}
	if text, ok := parseString(c.object["input"]); ok {
		p.text = text
	} else {
		p.locate(len(items), func(i int) turn { return responsesTurn(items[i]) })
	}
	if n := len(items); n > 0 {
		last, _ := parseObject(items[n-1])
		p.compacts = last.text("type") == "compaction_trigger"
	}
	if p.text == "" && previousID != "" {
		p.text, p.step = previous.script, p.step+previous.step+1
	}
	return p, nil
}

// remember keeps an answer for previous_response_id.
func (f responsesFormat) remember(a *answer, p *prompt) {
	if string(p.members["store"]) == "false" {
		return
	}
	kept := storedAnswer{step: p.step}
	if at := strings.LastIndex(p.text, markerOpen); at >= 0 && len(p.text)-at <= maxStoredScript {
		kept.script = strings.Clone(p.text[at:])
	}
	for i := range a.parts {
		if a.parts[i].isCall() {
			kept.calls = append(kept.calls, "call_"+a.parts[i].callID)
		}
	}
	f.stored.put("resp_"+a.id, kept)
}

func responsesTools(tools []tool, list []raw, namespace string) []tool {
	for _, value := range list {
		o, _ := parseObject(value)
		switch o.text("type") {
		case "namespace":
			tools = responsesTools(tools, o.list("tools"), o.text("name"))
		case "custom":
			tools = append(tools, tool{name: o.text("name"), namespace: namespace, custom: true})
		case "function":
			tools = append(tools, tool{name: o.text("name"), namespace: namespace, schema: o["parameters"]})
		}
	}
	return tools
}

func responsesTurn(value raw) turn {
	item, _ := parseObject(value)
	switch kind := item.text("type"); kind {
	case "", "message":
		switch item.text("role") {
		case "user":
			return turn{speaker: speakerUser, text: contentText(item["content"], "input_text")}
		case "assistant":
			return turn{speaker: speakerModel}
		}
		return turn{}
	case "additional_tools", "item_reference", "configuration_update", "compaction", "compaction_trigger":
		return turn{}
	default:
		if strings.HasSuffix(kind, "_output") {
			return turn{speaker: speakerTool, results: 1}
		}
		return turn{speaker: speakerModel}
	}
}
