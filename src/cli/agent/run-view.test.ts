import { describe, expect, it } from 'vitest'
import type { ExecutedRun } from '../../run/agents/execute.ts'
import { formatSummary } from './run-view.ts'

const executedRun = (...costs: readonly (number | null)[]) =>
  ({
    run: { status: 'completed', tokens_used: 574, iteration: 2, stop_reason: 'end', receipt_ids: [] },
    handoff: { id: 'handoff_1', status: 'completed', answered_by: [] },
    providerResults: costs.map((cost_nano_usd) => ({ cost_nano_usd })),
  }) as unknown as ExecutedRun

describe('the summary of a run', () => {
  it.each([
    [[0, 0], 'end · 2 turns · 574 tokens · $0.00\n'],
    [[12_345, 1], '574 tokens · $0.000012346\n'],
    [[2_000_000_000], '574 tokens · $2.00\n'],
    [[5, null], '574 tokens\n'],
    [[], '574 tokens\n'],
  ])('adds the costs %j exactly, and shows no total if one is unknown', (costs, shown) => {
    expect(formatSummary(executedRun(...costs))).toContain(shown)
  })

  it('names the providers that answered if one of them was not the requested provider', () => {
    const by = (...answered_by: readonly string[]) => {
      const { run, handoff, ...rest } = executedRun(0)
      return formatSummary({
        ...rest,
        run: { ...run, provider_id: 'provider_a' },
        handoff: { ...handoff, answered_by: [...answered_by] },
      })
    }
    expect(by('provider_a')).not.toContain('answered')
    expect(by('provider_b')).toContain('answered    by provider_b\n')
    expect(by('provider_a', 'provider_b')).toContain('answered    by provider_a and provider_b\n')
  })
})
