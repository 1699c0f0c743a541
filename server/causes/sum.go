package causes

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/store/record"
)

// Sum adds up the causes of exchanges.
type Sum struct {
	by     []string
	lines  map[api.Cause]*api.CostLine
	tools  map[string]*api.ToolCost
	called map[string]bool
	costs  api.Costs
}

// NewSum returns an empty sum, grouped by names of [api.CostsBy].
func NewSum(names []string) (*Sum, error) {
	for _, name := range names {
		if new(api.Cause).By(name) == nil {
			return nil, codec.Invalid("by", "costs cannot be grouped by %q; known are %s", name, strings.Join(api.CostsBy(), ", "))
		}
	}
	return &Sum{by: names, lines: make(map[api.Cause]*api.CostLine), tools: make(map[string]*api.ToolCost), called: make(map[string]bool)}, nil
}

// Add adds an exchange.
func (s *Sum) Add(info *record.ExchangeInfo, e Exchange) {
	s.costs.Exchanges++
	if usage := codec.Usage(info.Usage); info.Cost == nil && usage.Total() > 0 {
		s.costs.Unpriced++
	}
	for _, name := range e.Called {
		s.called[name] = true
	}
	for i := range e.Shares {
		share := &e.Shares[i]
		if share.Part == partTools {
			s.definition(&api.ToolCost{Name: share.Tool, Input: share.Input, USD: share.USD})
		}
		s.line(share)
	}
}

// Merge adds what another sum, grouped in the same way, has come to.
func (s *Sum) Merge(c *api.Costs) {
	s.costs.Exchanges += c.Exchanges
	s.costs.Unpriced += c.Unpriced
	for i := range c.Data {
		s.line(&c.Data[i])
	}
	for i := range c.Tools {
		s.definition(&c.Tools[i])
		if c.Tools[i].Called {
			s.called[c.Tools[i].Name] = true
		}
	}
}

func (s *Sum) line(share *api.CostLine) {
	var of api.Cause
	for _, name := range s.by {
		*of.By(name) = *share.By(name)
	}
	line := s.lines[of]
	if line == nil {
		line = &api.CostLine{Cause: of}
		s.lines[of] = line
	}
	for _, sum := range []*api.CostLine{line, &s.costs.Total} {
		sum.Input = codec.AddCounts(sum.Input, share.Input)
		sum.Output = codec.AddCounts(sum.Output, share.Output)
		sum.USD += share.USD
	}
}

func (s *Sum) definition(of *api.ToolCost) {
	tool := s.tools[of.Name]
	if tool == nil {
		tool = &api.ToolCost{Name: of.Name}
		s.tools[of.Name] = tool
	}
	tool.Input = codec.AddCounts(tool.Input, of.Input)
	tool.USD += of.USD
}

// Costs returns the sum.
func (s *Sum) Costs() *api.Costs {
	c := s.costs
	c.Object, c.By = "memory.costs", append([]string{}, s.by...)
	c.Data, c.Tools = make([]api.CostLine, 0, len(s.lines)), make([]api.ToolCost, 0, len(s.tools))
	for line := range maps.Values(s.lines) {
		c.Data = append(c.Data, *line)
	}
	slices.SortFunc(c.Data, func(a, b api.CostLine) int {
		return cmp.Or(cmp.Compare(b.USD, a.USD), cmp.Compare(b.Input+b.Output, a.Input+a.Output), a.Compare(&b.Cause))
	})
	for tool := range maps.Values(s.tools) {
		tool.Called = s.called[tool.Name]
		c.Tools = append(c.Tools, *tool)
	}
	slices.SortFunc(c.Tools, func(a, b api.ToolCost) int {
		return cmp.Or(cmp.Compare(b.USD, a.USD), cmp.Compare(b.Input, a.Input), cmp.Compare(a.Name, b.Name))
	})
	return &c
}
