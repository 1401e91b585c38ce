import { describe, expect, it } from 'vitest'
import { claudeCodeFormat } from './logins/claude-code.ts'
import { codexFormat } from './logins/codex.ts'
import { geminiFormat } from './logins/gemini.ts'
import { kimiFormat } from './logins/kimi.ts'
import { parseOverrides } from './overrides.ts'
import { PROGRAM_PROBES } from './probes/program-probes.ts'
import { tokenHosts } from './token-hosts.ts'

describe('config/accounts.yaml', () => {
  it('can be missing or empty', () => {
    expect(parseOverrides(undefined)).toEqual({})
    expect(parseOverrides(null)).toEqual({})
  })

  it('sets other addresses by account', () => {
    const content = {
      github: { base_url: 'https://git.example/api/v3' },
      codex: { token_url: 'https://login.example:8443/oauth/token', client_id: 'another' },
    }
    expect(parseOverrides(content)).toEqual(content)
  })

  it.each([
    'http://models.example/v1',
    'http://127.0.0.1:8000/v1',
    'https://models.example/v1/',
    'https://user@models.example/v1',
    'https://models.example/v1?key=1',
    'https://models.example/v1#part',
    'https://Models.example/v1',
    'https://models.example:443/v1',
    'https://models.example/a/../b',
    'https://models.example\\v1',
    'https://',
    'file:///etc/passwd',
    '',
    7,
  ])('never sends a credential to %j', (base_url) => {
    expect(() => parseOverrides({ codex: { base_url } })).toThrow(/^config\/accounts\.yaml: codex\.base_url/)
  })

  it.each([
    { codex: { base: 'https://models.example' } },
    { 'a b': {} },
    [],
    'text',
    { codex: 'https://x.example' },
  ])('is refused when it contains %j', (content) => {
    expect(() => parseOverrides(content)).toThrow('config/accounts.yaml')
  })
})

describe('the hosts that issue tokens', () => {
  it('are those of every login that Craik refreshes, and those in the config', () => {
    const isTokenHost = tokenHosts({ codex: { token_url: 'https://login.example:8443/oauth/token' } })
    const formats = [claudeCodeFormat, codexFormat, geminiFormat, kimiFormat]
    expect(formats).toHaveLength(PROGRAM_PROBES.length)
    for (const { tokenUrl } of formats) expect(isTokenHost(new URL(tokenUrl).hostname)).toBe(true)
    expect(isTokenHost('login.example')).toBe(true)
    expect(isTokenHost('api.openai.com')).toBe(false)
  })
})
