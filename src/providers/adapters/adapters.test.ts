/** The same behaviours over every dialect, against servers on loopback that speak the true wire formats. */
import { describe, expect, it } from 'vitest'
import { startAnthropic } from '../../../test/wire/anthropic.ts'
import { startChatCompletions } from '../../../test/wire/chat-completions.ts'
import { startGemini } from '../../../test/wire/gemini.ts'
import { startResponses } from '../../../test/wire/openai-responses.ts'
import type { Act, WireServer } from '../../../test/wire/wire-server.ts'
import { CraikError } from '../../errors.ts'
import type { Message } from '../conversation.ts'
import type { Dialect } from './adapter.ts'
import { adapterFor } from './adapter-for.ts'
import { asking, endpointAt, gather, KEY } from './call.fixture.ts'

interface Case {
  readonly dialect: Dialect
  readonly start: (script: readonly Act[]) => Promise<WireServer>
  readonly model: string
  readonly keyHeader: string
}

const CASES: readonly Case[] = [
  { dialect: 'anthropic_messages', start: startAnthropic, model: 'claude-x', keyHeader: 'x-api-key' },
  { dialect: 'openai_responses', start: startResponses, model: 'gpt-x', keyHeader: 'authorization' },
  {
    dialect: 'chat_completions',
    start: (script) => startChatCompletions(script),
    model: 'llama-x',
    keyHeader: 'authorization',
  },
  { dialect: 'gemini', start: startGemini, model: 'gemini-3-x', keyHeader: 'x-goog-api-key' },
]
const MEASURED = {
  source: 'measured',
  inputTokens: 120,
  cacheReadTokens: 20,
  cacheWriteTokens: 0,
  outputTokens: 30,
}

describe.each(CASES)('$dialect', ({ dialect, start, model, keyHeader }) => {
  async function play(
    script: readonly Act[],
    changes: Parameters<typeof endpointAt>[1] = {},
    request = asking('hello', { model }),
  ) {
    await using server = await start(script)
    const adapter = await adapterFor(dialect, server.baseUrl)
    const got = await gather(adapter, endpointAt(server.baseUrl, changes), request)
    return { ...got, requests: server.requests }
  }

  it('streams text and reports what was measured', async () => {
    const got = await play([{ kind: 'text', text: 'Grüße, 🌍' }])
    expect(got).toMatchObject({ text: 'Grüße, 🌍', reason: 'end', model, failure: undefined, toolCalls: [] })
    expect(got.usage).toEqual([MEASURED])
    expect(got.requests[0]!.invalid).toBeUndefined()
    expect(got.requests[0]!.headers[keyHeader]).toContain(KEY)
    expect(got.requests[0]!.path).not.toContain(KEY)
  })

  it('takes a tool call, gives the result back, and gets a final answer', async () => {
    await using server = await start([
      {
        kind: 'tool_call',
        name: 'run_command',
        arguments: { command_ref: 'fixture-action' },
        text: 'Let me see.',
      },
      { kind: 'text', text: 'Done.' },
    ])
    const adapter = await adapterFor(dialect, server.baseUrl)
    const first = asking(
      [
        { role: 'system', text: 'Be brief.' },
        { role: 'user', text: 'go' },
      ],
      { model },
    )
    const called = await gather(adapter, endpointAt(server.baseUrl), first)
    expect(called).toMatchObject({ text: 'Let me see.', reason: 'tool_calls', failure: undefined })
    expect(called.toolCalls).toMatchObject([
      { name: 'run_command', arguments: { command_ref: 'fixture-action' } },
    ])
    const results: Message[] = called.toolCalls.map(({ id, name }) => ({
      role: 'tool',
      callId: id,
      name,
      text: 'exit 0',
      failed: false,
    }))
    const said: Message = { role: 'assistant', text: called.text, toolCalls: called.toolCalls }
    const second = asking([...first.messages, said, ...results], { model })
    const ended = await gather(adapter, endpointAt(server.baseUrl), second)
    expect(ended).toMatchObject({ text: 'Done.', reason: 'end', failure: undefined })
    expect(server.requests.map((request) => request.invalid)).toEqual([undefined, undefined])
    expect(server.requests[1]!.rawBody).toContain('exit 0')
    expect(server.requests[1]!.rawBody).toContain('Be brief.')
  })

  it('gives back calls that another provider made', async () => {
    const call = { id: 'odd|id/'.repeat(20), name: 'run_command', arguments: { command_ref: 'x' } }
    const history: Message[] = [
      { role: 'user', text: 'go' },
      { role: 'assistant', text: '', toolCalls: [call] },
      { role: 'tool', callId: call.id, name: call.name, text: 'no', failed: true },
      { role: 'user', text: '' },
      { role: 'user', text: 'and now?' },
    ]
    const got = await play([{ kind: 'text', text: 'Right.' }], {}, asking(history, { model }))
    expect(got).toMatchObject({ text: 'Right.', failure: undefined })
  })

  it('sends exactly what was encoded, the output cap with it', async () => {
    const request = asking('hello', { model, maxOutputTokens: 4_321 })
    const got = await play([{ kind: 'text', text: 'ok' }], {}, request)
    expect(got.requests[0]!.rawBody).toBe((await adapterFor(dialect, undefined)).encode(request))
    expect(got.requests[0]!.rawBody).toContain('4321')
  })

  it('tells an answer that was cut at the cap from a complete one, and acts on none of its calls', async () => {
    const text = await play([{ kind: 'text', text: 'half of', stop: 'max_tokens' }])
    expect(text).toMatchObject({ text: 'half of', reason: 'max_tokens', failure: undefined })
    const whole = { command_ref: 'fixture-action' }
    const cutArguments = dialect === 'gemini' ? whole : '{"command_ref":"fix'
    const call = await play([
      { kind: 'tool_call', name: 'run_command', arguments: cutArguments, stop: 'max_tokens' },
    ])
    expect(call).toMatchObject({ reason: 'max_tokens', toolCalls: [], failure: undefined })
  })

  it('says when a model refuses', async () => {
    const got = await play([{ kind: 'text', text: 'I cannot', stop: 'refused' }])
    expect(got).toMatchObject({ reason: 'refused', failure: undefined })
  })

  it('calls usage absent when none came, or when no input was counted, and a zero of output a zero', async () => {
    const without = await play([{ kind: 'text', text: 'hi', usage: 'none' }])
    expect(without).toMatchObject({ text: 'hi', reason: 'end', usage: [{ source: 'absent' }] })
    const zero = await play([{ kind: 'text', text: 'hi', usage: { input: 0, cacheRead: 0, output: 0 } }])
    expect(zero.usage).toEqual([{ source: 'absent' }])
    const empty = await play([{ kind: 'text', text: 'hi', usage: { input: 9, cacheRead: 0, output: 0 } }])
    expect(empty.usage).toMatchObject([
      { source: 'measured', inputTokens: 9, cacheReadTokens: 0, outputTokens: 0 },
    ])
  })

  it.each([-1, 1.5, 2 ** 41, '7', null, {}])('never books a count of %j', async (count) => {
    const raw = {
      input_tokens: count,
      output_tokens: count,
      prompt_tokens: count,
      completion_tokens: count,
      promptTokenCount: count,
      candidatesTokenCount: count,
    }
    const got = await play([{ kind: 'text', text: 'hi', usage: { raw } }])
    expect(got).toMatchObject({ text: 'hi', reason: 'end', usage: [{ source: 'absent' }] })
  })

  it.each([
    [429, 'rate_limited'],
    [503, 'overloaded'],
    [529, 'overloaded'],
    [500, 'server_error'],
    [502, 'server_error'],
    [401, 'unauthorized'],
    [403, 'unauthorized'],
    [400, 'rejected'],
    [404, 'rejected'],
    [413, 'rejected'],
    [204, 'garbage'],
  ] as const)('takes a %i for %s', async (status, failure) => {
    const got = await play([{ kind: 'refuse', status, message: 'the reason why' }])
    expect(got.failure).toMatchObject({ failure, status, sent: true, refused: status !== 502 })
    // Of what is about the credential nothing is quoted.
    const isQuoted = status !== 204 && status !== 401 && status !== 403
    expect(got.message.includes('the reason why')).toBe(isQuoted)
    expect(got.reason).toBeUndefined()
  })

  it('passes on how long to wait', async () => {
    const got = await play([{ kind: 'refuse', status: 429, headers: { 'retry-after': '7' } }])
    expect(got.failure).toMatchObject({ failure: 'rate_limited', retryAfterMs: 7_000, refused: true })
  })

  it('follows no redirect', async () => {
    await using elsewhere = await start([{ kind: 'text', text: 'from elsewhere' }])
    const got = await play([{ kind: 'redirect', location: elsewhere.baseUrl }])
    expect(got.failure).toMatchObject({ failure: 'rejected', status: 307, refused: true })
    expect(elsewhere.requests).toEqual([])
  })

  it('does not take a stream that breaks or ends early for an answer', async () => {
    for (const kind of ['break', 'cut'] as const) {
      const got = await play([{ kind, text: 'The first half' }])
      expect(got).toMatchObject({ text: 'The first half', reason: undefined })
      expect(got.usage).toMatchObject([{ source: 'estimated', outputTokens: 5 }])
      expect(got.failure).toMatchObject({ failure: 'broken_stream', sent: true, refused: false })
    }
  })

  it('turns an error in the stream into a failure', async () => {
    const got = await play([{ kind: 'error_event', text: 'The first half', message: 'try later' }])
    expect(got.text).toBe('The first half')
    expect(got.failure).toMatchObject({ sent: true, refused: false })
    expect(['overloaded', 'server_error']).toContain(got.failure!.failure)
    expect(got.message).toContain('try later')
  })

  it.each([
    ['an event that is not JSON', 'data: {"type":\n\n'],
    ['JSON of another shape', 'data: [1, 2]\n\n'],
    ['a page of HTML', '<html>\n<body>: hello</body>\n</html>\n\n'],
    ['bytes that are not UTF-8', Buffer.from([0x64, 0x61, 0x74, 0x61, 0x3a, 0xff, 0xfe, 0x0a, 0x0a])],
  ])('calls %s garbage', async (_, body) => {
    const got = await play([{ kind: 'raw', body }])
    expect(got.failure).toMatchObject({ failure: 'garbage', sent: true, refused: false })
  })

  it('calls an answer that is no event stream garbage', async () => {
    const json = await play([{ kind: 'raw', body: '{}', headers: { 'content-type': 'application/json' } }])
    expect(json.failure?.failure).toBe('garbage')
    const zipped = await play([
      { kind: 'raw', body: 'data: {}\n\n', headers: { 'content-encoding': 'gzip' } },
    ])
    expect(zipped.failure?.failure).toBe('garbage')
  })

  it.each(['not json', '[1]', '"text"', '7', '{"a":"\\ud800"}', '['.repeat(100) + ']'.repeat(100)])(
    'calls tool arguments of %s garbage',
    async (text) => {
      const args = dialect === 'gemini' ? (text.startsWith('{') ? { a: '\ud800' } : text) : text
      const got = await play([{ kind: 'tool_call', name: 'run_command', arguments: args }])
      expect(got).toMatchObject({ toolCalls: [], reason: undefined, failure: { failure: 'garbage' } })
    },
  )

  it('stops reading an event that does not end', async () => {
    const got = await play([{ kind: 'endless_event' }])
    expect(got.failure?.failure).toBe('garbage')
  })

  it('stops reading events that bring nothing', async () => {
    const body = 'data: {"type":"ping","choices":[],"candidates":[]}\n\n'.repeat(10_001)
    const got = await play([{ kind: 'raw', body }])
    expect(got.failure?.failure).toBe('garbage')
  })

  it('is not kept waiting by slow bytes, silence, or a stream that hangs', async () => {
    const drip = await play([{ kind: 'drip', text: 'x'.repeat(2_000), everyMs: 5 }], { idleTimeoutMs: 300 })
    expect(drip.failure?.failure).toBe('timeout')
    const silence = await play([{ kind: 'silence' }], { connectTimeoutMs: 100, headersTimeoutMs: 200 })
    expect(silence.failure).toMatchObject({ failure: 'timeout', status: undefined, sent: true })
    const hang = await play([{ kind: 'hang', text: 'The first half' }], { idleTimeoutMs: 200 })
    expect(hang).toMatchObject({ text: 'The first half', failure: { failure: 'timeout', status: 200 } })
  })

  it.each([
    ['without a reason', undefined],
    ['by Ctrl-C, whose reason is one of our own errors', new CraikError('interrupted', 'interrupted')],
  ])('closes the connection when it is cancelled %s', async (_, reason) => {
    await using server = await start([{ kind: 'hang', text: 'The first half' }])
    const adapter = await adapterFor(dialect, server.baseUrl)
    const cancel = new AbortController()
    const request = asking('hello', { model })
    const got = await gather(adapter, endpointAt(server.baseUrl), request, cancel.signal, () =>
      cancel.abort(reason),
    )
    expect(got.failure).toMatchObject({ failure: 'cancelled', sent: true })
    await server.hangUp
  })

  it('closes the connection when nobody reads on', async () => {
    await using server = await start([{ kind: 'hang', text: 'The first half' }])
    const adapter = await adapterFor(dialect, server.baseUrl)
    const request = asking('hello', { model })
    const signal = new AbortController().signal
    for await (const event of adapter.call(
      endpointAt(server.baseUrl),
      request,
      adapter.encode(request),
      signal,
    ))
      if (event.type === 'text') break
    await server.hangUp
  })

  it('sends nothing once cancelled', async () => {
    await using server = await start([{ kind: 'text', text: 'hi' }])
    const adapter = await adapterFor(dialect, server.baseUrl)
    const got = await gather(
      adapter,
      endpointAt(server.baseUrl),
      asking('hello', { model }),
      AbortSignal.abort(),
    )
    expect(got.failure).toMatchObject({ failure: 'cancelled', sent: false })
    expect(server.requests).toEqual([])
  })

  it('says that nothing was sent where nobody listens, and that something was where the line goes dead', async () => {
    const server = await start([])
    await server.close()
    const adapter = await adapterFor(dialect, server.baseUrl)
    const nobody = await gather(adapter, endpointAt(server.baseUrl), asking('hello', { model }))
    expect(nobody.failure).toMatchObject({ failure: 'unreachable', sent: false, status: undefined })
    const dead = await play([{ kind: 'slam' }])
    expect(dead.failure).toMatchObject({ failure: 'unreachable', sent: true, status: undefined })
  })

  it.each([
    ['whole', KEY],
    ['in capitals', KEY.toUpperCase()],
    ['as base64', Buffer.from(KEY).toString('base64')],
    ['as hex', Buffer.from(KEY).toString('hex')],
  ])('does not repeat a credential that the server sends back %s', async (_, echoed) => {
    const message = `Incorrect API key provided: ${echoed}. Also sk-${'a1b2c3d4'.repeat(4)}`
    for (const act of [
      { kind: 'refuse', status: 401, message },
      { kind: 'refuse', status: 500, body: message },
      { kind: 'error_event', text: 'x', message },
      { kind: 'raw', body: `${message}\n\n` },
      { kind: 'raw', body: `data: {"${echoed}":1}\n\ndata: "${echoed}"\n\n` },
    ] as const) {
      const got = await play([act])
      expect(got.failure).toBeDefined()
      expect(got.message.toLowerCase()).not.toContain(echoed.toLowerCase())
      expect(got.message).not.toContain('a1b2c3d4a1b2c3d4')
    }
  })

  it('does not compare what a server says with a part of the credential', async () => {
    const part = KEY.slice(0, -1)
    for (const status of [401, 403]) {
      const got = await play([{ kind: 'refuse', status, message: `not ${part}` }])
      expect(got.message).not.toContain(KEY.slice(0, 4))
    }
    const got = await play([{ kind: 'refuse', status: 400, message: `no model ${part}` }])
    expect(got.message).toContain(`no model ${part}`)
  })

  it('quotes one short, printable line of what the provider says', async () => {
    const message = `\u001b[31mred\u001b[0m\r\nline two ${'long '.repeat(200)}`
    const got = await play([{ kind: 'refuse', status: 400, message }])
    const line = got.message.split('“')[1]!.split('”')[0]!
    expect(line).toMatch(/^\[31mred \[0m line two /)
    expect(line.length).toBeLessThanOrEqual(201)
  })

  it('refuses a credential that no header can hold, and one with a line break at the end is used without it', async () => {
    const bad = await play([{ kind: 'text', text: 'hi' }], { credential: Buffer.from('a\r\nb: c') })
    expect(bad.failure).toMatchObject({ failure: 'unauthorized', sent: false })
    expect(bad.requests).toEqual([])
    const good = await play([{ kind: 'text', text: 'hi' }], { credential: Buffer.from(`${KEY}\n`) })
    expect(good.requests[0]!.headers[keyHeader]).toMatch(new RegExp(`${KEY}$`))
  })

  it.each([
    'http://api.example.com/v1',
    'https://user:pw@api.example.com/v1',
    'ftp://127.0.0.1/v1',
    'no url',
  ])('sends nothing to %s', async (baseUrl) => {
    const adapter = await adapterFor(dialect, baseUrl)
    const got = await gather(
      adapter,
      endpointAt(baseUrl, { loopbackOnly: false }),
      asking('hello', { model }),
    )
    expect(got.failure).toMatchObject({ failure: 'rejected', sent: false })
    expect(got.message).not.toContain('user:pw')
  })

  it('sends nothing beyond loopback where only loopback is allowed', async () => {
    const adapter = await adapterFor(dialect, 'https://api.example.com/v1')
    const got = await gather(adapter, endpointAt('https://api.example.com/v1'), asking('hello', { model }))
    expect(got.failure).toMatchObject({ failure: 'rejected', sent: false })
  })
})
