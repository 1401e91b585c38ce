/** What only one dialect has: its own events, its own way to count, and the habits of its servers. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { startAnthropic } from '../../../test/wire/anthropic.ts'
import { startChatCompletions } from '../../../test/wire/chat-completions.ts'
import { SIGNATURE, startGemini } from '../../../test/wire/gemini.ts'
import { startResponses } from '../../../test/wire/openai-responses.ts'
import type { Act } from '../../../test/wire/wire-server.ts'
import type { Dialect } from './adapter.ts'
import { adapterFor } from './adapter-for.ts'
import { asking, endpointAt, type Gathered, gather } from './call.fixture.ts'

const START = {
  anthropic_messages: startAnthropic,
  openai_responses: startResponses,
  chat_completions: (script: readonly Act[]) => startChatCompletions(script),
  gemini: startGemini,
}

async function hear(dialect: keyof typeof START, ...events: (object | string)[]): Promise<Gathered> {
  const frames = events.map(
    (event) => `data: ${typeof event === 'string' ? event : JSON.stringify(event)}\n\n`,
  )
  await using server = await START[dialect]([{ kind: 'raw', body: frames.join('') }])
  const adapter = await adapterFor(dialect, server.baseUrl)
  return await gather(adapter, endpointAt(server.baseUrl), asking('hello'))
}

describe('anthropic_messages', () => {
  const start = (usage: object) => ({ type: 'message_start', message: { model: 'claude-x', usage } })
  const stop = (stop_reason: string, usage?: object) => ({
    type: 'message_delta',
    delta: { stop_reason },
    ...(usage && { usage }),
  })
  const end = { type: 'message_stop' }

  it('adds cached input to the input, and takes the last count of each kind', async () => {
    const first = {
      input_tokens: 10,
      cache_creation_input_tokens: 5,
      cache_read_input_tokens: 100,
      output_tokens: 1,
    }
    const got = await hear('anthropic_messages', start(first), stop('end_turn', { output_tokens: 40 }), end)
    expect(got.usage).toEqual([
      { source: 'measured', inputTokens: 115, cacheReadTokens: 100, cacheWriteTokens: 5, outputTokens: 40 },
    ])
    const late = await hear(
      'anthropic_messages',
      start({ input_tokens: 0, output_tokens: 0 }),
      stop('end_turn', { input_tokens: 9, output_tokens: 4 }),
      end,
    )
    expect(late.usage).toMatchObject([{ inputTokens: 9, outputTokens: 4 }])
  })

  it('does not take the first count of the output for the last', async () => {
    const got = await hear(
      'anthropic_messages',
      start({ input_tokens: 10, output_tokens: 1 }),
      stop('end_turn'),
      end,
    )
    expect(got).toMatchObject({ reason: 'end', usage: [{ source: 'absent' }] })
  })

  it('passes no thinking on', async () => {
    const got = await hear(
      'anthropic_messages',
      { type: 'content_block_start', index: 0, content_block: { type: 'thinking', thinking: '' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'thinking_delta', thinking: 'hmm' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'signature_delta', signature: 'x' } },
      { type: 'content_block_start', index: 1, content_block: { type: 'text', text: '' } },
      { type: 'content_block_delta', index: 1, delta: { type: 'text_delta', text: 'yes' } },
      { type: 'something_new', whatever: true },
      stop('end_turn'),
      end,
    )
    expect(got).toMatchObject({ text: 'yes', reason: 'end' })
  })

  it.each([
    ['overloaded_error', 'overloaded'],
    ['rate_limit_error', 'rate_limited'],
    ['authentication_error', 'unauthorized'],
    ['invalid_request_error', 'rejected'],
    ['timeout_error', 'timeout'],
    ['api_error', 'server_error'],
  ])('knows the error type %s', async (type, failure) => {
    const got = await hear('anthropic_messages', { type: 'error', error: { type, message: 'x' } })
    expect(got.failure).toMatchObject({ failure, refused: false })
  })

  it('estimates what a broken answer has cost by all that was written, with the input as it was counted', async () => {
    const got = await hear(
      'anthropic_messages',
      start({ input_tokens: 10, cache_read_input_tokens: 100, output_tokens: 1 }),
      { type: 'content_block_start', index: 0, content_block: { type: 'thinking', thinking: '' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'thinking_delta', thinking: 'x'.repeat(300) } },
    )
    expect(got).toMatchObject({ text: '', failure: { failure: 'broken_stream' } })
    expect(got.usage).toEqual([
      { source: 'estimated', inputTokens: 110, cacheReadTokens: 100, cacheWriteTokens: 0, outputTokens: 100 },
    ])
  })

  it('takes two calls at once, and no two with the same id', async () => {
    const call = (index: number, id: string) => ({
      type: 'content_block_start',
      index,
      content_block: { type: 'tool_use', id, name: 'run_command', input: { at: index } },
    })
    const two = await hear(
      'anthropic_messages',
      call(0, 'toolu_a'),
      call(1, 'toolu_b'),
      stop('tool_use'),
      end,
    )
    expect(two.toolCalls.map(({ id, arguments: given }) => [id, given])).toEqual([
      ['toolu_a', { at: 0 }],
      ['toolu_b', { at: 1 }],
    ])
    const same = await hear(
      'anthropic_messages',
      call(0, 'toolu_a'),
      call(1, 'toolu_a'),
      stop('tool_use'),
      end,
    )
    expect(same.failure?.failure).toBe('garbage')
  })

  it.each([
    ['an unknown stop reason', [stop('vanished'), end], 'garbage'],
    ['a tool stop without a call', [stop('tool_use'), end], 'garbage'],
    ['an end without a stop reason', [end], 'broken_stream'],
    [
      'arguments of a call that never began',
      [{ type: 'content_block_delta', index: 3, delta: { type: 'input_json_delta', partial_json: '{}' } }],
      'garbage',
    ],
  ])('does not accept %s', async (_, events, failure) => {
    expect((await hear('anthropic_messages', ...events)).failure?.failure).toBe(failure)
  })

  it('sends nothing without an output cap', async () => {
    await using server = await startAnthropic([{ kind: 'text', text: 'hi' }])
    const adapter = await adapterFor('anthropic_messages', server.baseUrl)
    expect(adapter.mayOmitOutputCap).toBe(false)
    const request = asking('hello', { maxOutputTokens: undefined })
    const got = await gather(adapter, endpointAt(server.baseUrl), request)
    expect(got.failure).toMatchObject({ failure: 'rejected', sent: false })
    expect(server.requests).toEqual([])
  })
})

describe('openai_responses', () => {
  it('shows a refusal as one', async () => {
    const got = await hear(
      'openai_responses',
      { type: 'response.refusal.delta', output_index: 0, delta: 'No.' },
      { type: 'response.completed', response: { model: 'gpt-x', usage: null } },
    )
    expect(got).toMatchObject({ text: 'No.', reason: 'refused', usage: [{ source: 'absent' }] })
  })

  it.each([
    [
      { type: 'response.failed', response: { error: { code: 'rate_limit_exceeded', message: 'x' } } },
      'rate_limited',
    ],
    [{ type: 'response.failed', response: { error: null } }, 'server_error'],
    [{ type: 'error', code: 'server_error', message: 'x' }, 'server_error'],
    [{ type: 'error', error: { type: 'invalid_request_error', message: 'x' } }, 'rejected'],
    [{ type: 'response.incomplete', response: { incomplete_details: { reason: 'bored' } } }, 'garbage'],
  ])('makes a failure of %j', async (event, failure) => {
    expect((await hear('openai_responses', event)).failure?.failure).toBe(failure)
  })
})

describe('chat_completions', () => {
  const chunk = (delta: object, finish_reason: string | null = null) => ({
    choices: [{ delta, finish_reason }],
  })
  const call = (fields: object, args: string) => ({
    ...fields,
    function: { name: 'run_command', arguments: args },
  })

  it.each([
    ['https://api.openai.com/v1', 'max_completion_tokens'],
    ['http://localhost:11434/v1', 'max_tokens'],
    ['https://api.openai.com.example/v1', 'max_tokens'],
    [undefined, 'max_tokens'],
  ])('names the output cap for %s %s', async (baseUrl, field) => {
    const body = JSON.parse((await adapterFor('chat_completions', baseUrl)).encode(asking('hello')))
    expect(body[field]).toBe(2_048)
    expect(['max_tokens', 'max_completion_tokens'].filter((name) => name in body)).toEqual([field])
  })

  it('asks for no cap when it is given none', async () => {
    const request = asking('hello', { maxOutputTokens: undefined, tools: [] })
    expect(
      Object.keys(JSON.parse((await adapterFor('chat_completions', undefined)).encode(request))),
    ).toEqual(['model', 'messages', 'stream', 'stream_options'])
  })

  it('tells calls apart that have no index, or all the same one, and names those without an id', async () => {
    const expected = [{ arguments: { n: 1 } }, { arguments: { n: 2 } }]
    for (const [first, second] of [
      [{ id: 'a' }, { id: 'b' }],
      [
        { index: 0, id: 'a' },
        { index: 0, id: 'b' },
      ],
      [{ index: 0 }, { index: 1 }],
    ] as const) {
      const got = await hear(
        'chat_completions',
        chunk({ tool_calls: [call(first, '{"n":1}')] }),
        chunk({ tool_calls: [call(second, '{"n":2}')] }),
        chunk({}, 'stop'),
        '[DONE]',
      )
      expect(got).toMatchObject({ reason: 'tool_calls', toolCalls: expected })
    }
  })

  it('counts reasoning that stands in the total only', async () => {
    const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 40 }
    const got = await hear('chat_completions', { ...chunk({ content: 'x' }, 'stop'), usage }, '[DONE]')
    expect(got.usage).toMatchObject([{ inputTokens: 10, outputTokens: 30 }])
  })

  it('takes the arguments {} for none', async () => {
    const got = await hear(
      'chat_completions',
      chunk({ tool_calls: [call({ index: 0, id: 'a' }, '')] }),
      chunk({}, 'tool_calls'),
      '[DONE]',
    )
    expect(got.toolCalls).toMatchObject([{ arguments: {} }])
  })

  it('joins a character that was cut in two', async () => {
    const got = await hear(
      'chat_completions',
      '{"choices":[{"delta":{"content":"a\\ud83c"}}]}',
      '{"choices":[{"delta":{"content":"\\udf0d"},"finish_reason":"stop"}]}',
      '[DONE]',
    )
    expect(got.text).toBe('a🌍')
  })

  it('needs no key where none is given', async () => {
    await using server = await startChatCompletions([{ kind: 'text', text: 'hi' }], { key: false })
    const adapter = await adapterFor('chat_completions', server.baseUrl)
    const got = await gather(adapter, endpointAt(server.baseUrl, { credential: undefined }), asking('hello'))
    expect(got.text).toBe('hi')
    expect(server.requests[0]!.headers).not.toHaveProperty('authorization')
  })
})

describe('gemini', () => {
  const chunk = (parts: object[], finishReason?: string, rest: object = {}) => ({
    candidates: [{ content: { role: 'model', parts }, ...(finishReason && { finishReason }) }],
    ...rest,
  })

  it('keeps the signature of a call', async () => {
    const got = await hear(
      'gemini',
      chunk([{ functionCall: { name: 'run_command', args: { n: 1 } }, thoughtSignature: SIGNATURE }]),
      chunk([{ functionCall: { name: 'run_command' } }], 'STOP'),
    )
    expect(got.reason).toBe('tool_calls')
    expect(got.toolCalls).toEqual([
      { id: 'call_1', name: 'run_command', arguments: { n: 1 }, echo: SIGNATURE },
      { id: 'call_2', name: 'run_command', arguments: {} },
    ])
  })

  it('counts thoughts as output, cached input as input, and a missing count as zero beside a total', async () => {
    const usageMetadata = {
      promptTokenCount: 100,
      cachedContentTokenCount: 60,
      thoughtsTokenCount: 50,
      totalTokenCount: 150,
    }
    const got = await hear('gemini', chunk([{ text: 'hm', thought: true }], 'MAX_TOKENS', { usageMetadata }))
    expect(got).toMatchObject({ text: '', reason: 'max_tokens' })
    expect(got.usage).toEqual([
      { source: 'measured', inputTokens: 100, cacheReadTokens: 60, cacheWriteTokens: 0, outputTokens: 50 },
    ])
  })

  it.each([
    [{ promptFeedback: { blockReason: 'SAFETY' } }, 'refused'],
    [chunk([{ text: 'x' }], 'RECITATION'), 'refused'],
  ])('shows %j as refused', async (event, reason) => {
    expect((await hear('gemini', event)).reason).toBe(reason)
  })

  it('does not act on a call that the server calls malformed', async () => {
    const got = await hear('gemini', chunk([], 'MALFORMED_FUNCTION_CALL'))
    expect(got.failure?.failure).toBe('garbage')
  })

  it('knows a wrong key behind a 400', async () => {
    const body = JSON.stringify({
      error: {
        code: 400,
        message: 'API key not valid.',
        status: 'INVALID_ARGUMENT',
        details: [{ '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason: 'API_KEY_INVALID' }],
      },
    })
    await using server = await startGemini([{ kind: 'refuse', status: 400, body }])
    const got = await gather(
      await adapterFor('gemini', server.baseUrl),
      endpointAt(server.baseUrl),
      asking('hello'),
    )
    expect(got.failure).toMatchObject({ failure: 'unauthorized', status: 400 })
  })

  it('gives no signature to models that ask for none', async () => {
    const call = { id: 'a', name: 'run_command', arguments: {} }
    const history = [{ role: 'assistant', text: '', toolCalls: [call] }] as const
    const { encode } = await adapterFor('gemini', undefined)
    expect(encode(asking(history, { model: 'gemini-2.5-pro' }))).not.toContain('thoughtSignature')
    expect(encode(asking(history, { model: 'gemini-3-pro' }))).toContain('thoughtSignature')
  })
})

describe('any dialect', () => {
  const dialects: Dialect[] = [
    'anthropic_messages',
    'openai_responses',
    'chat_completions',
    'gemini',
    'fixture',
  ]

  it('encodes half characters as something that servers take', async () => {
    for (const dialect of dialects) {
      const body = (await adapterFor(dialect, undefined)).encode(asking('a\ud800b'))
      expect(body).not.toMatch(/\\ud800/i)
      expect(body.isWellFormed()).toBe(true)
    }
  })

  it('makes a failure of whatever JSON a server sends, never another error', async () => {
    const key = fc.constantFrom(
      'type',
      'choices',
      'candidates',
      'delta',
      'error',
      'message',
      'response',
      'usage',
    )
    const { event } = fc.letrec((tie) => ({
      event: fc.dictionary(key, tie('value'), { maxKeys: 4 }),
      value: fc.oneof(
        { maxDepth: 4 },
        fc.constantFrom(null, 1, 'message_delta', 'response.completed', 'error', 'stop'),
        fc.array(tie('event'), { maxLength: 2 }),
        tie('event'),
      ),
    }))
    const sample = fc.sample(event, 150)
    for (const dialect of Object.keys(START) as (keyof typeof START)[])
      for (const each of sample) {
        const got = await hear(dialect, each as object)
        expect(got.reason === undefined).toBe(got.failure !== undefined)
      }
  })
})
