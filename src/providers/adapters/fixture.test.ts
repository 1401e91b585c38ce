/** The deterministic adapter: same input, same bytes, nothing dialled. */
import { describe, expect, it } from 'vitest'
import type { Message } from '../conversation.ts'
import { asking, endpointAt, gather } from './call.fixture.ts'
import { fixture } from './fixture.ts'

/** Nothing listens there, and nobody asks. */
const endpoint = endpointAt('http://127.0.0.1:1/v1')

function conversation(failed: boolean): Message[] {
  const call = { id: 'fixture_call_1', name: 'run_command', arguments: { command_ref: 'fixture-action' } }
  return [
    { role: 'user', text: 'go' },
    { role: 'assistant', text: '', toolCalls: [call] },
    { role: 'tool', callId: call.id, name: call.name, text: 'out', failed },
  ]
}

describe('the fixture adapter', () => {
  it('asks for the fixture action once, then says what came of it', async () => {
    const first = await gather(fixture, endpoint, asking('go'))
    expect(first).toMatchObject({ reason: 'tool_calls', model: 'model-1', failure: undefined })
    expect(first.toolCalls).toEqual([
      { id: 'fixture_call_1', name: 'run_command', arguments: { command_ref: 'fixture-action' } },
    ])
    const passed = await gather(fixture, endpoint, asking(conversation(false)))
    expect(passed).toMatchObject({ reason: 'end', toolCalls: [] })
    expect(passed.text).toContain('passed')
    expect((await gather(fixture, endpoint, asking(conversation(true)))).text).toContain('failed')
  })

  it('starts afresh with the next prompt, under another id', async () => {
    const next = await gather(
      fixture,
      endpoint,
      asking([...conversation(false), { role: 'user', text: 'again' }]),
    )
    expect(next.toolCalls.map((call) => call.id)).toEqual(['fixture_call_2'])
  })

  it('answers with text where no command is offered', async () => {
    const got = await gather(fixture, endpoint, asking('go', { tools: [] }))
    expect(got).toMatchObject({ reason: 'end', toolCalls: [] })
    expect(got.text).not.toBe('')
  })

  it('gives the same bytes for the same input, and counts what it measured', async () => {
    const [one, two] = [
      await gather(fixture, endpoint, asking('go')),
      await gather(fixture, endpoint, asking('go')),
    ]
    expect(one).toEqual(two)
    expect(fixture.encode(asking('go'))).toBe(fixture.encode(asking('go')))
    expect(one.usage).toHaveLength(1)
    const bytes = Buffer.byteLength(fixture.encode(asking('go')))
    expect(one.usage).toMatchObject([{ source: 'measured', inputTokens: Math.ceil(bytes / 4) }])
  })

  it('stops when it is cancelled', async () => {
    const got = await gather(fixture, endpoint, asking('go'), AbortSignal.abort())
    expect(got).toMatchObject({ text: '', failure: { failure: 'cancelled', sent: false } })
  })
})
