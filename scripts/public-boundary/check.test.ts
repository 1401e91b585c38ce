import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { checkPublic, findingsIn } from './check.ts'

/** Joins parts, so that no scanner takes the samples in this file for real secrets. */
const joinParts = (...parts: readonly string[]) => parts.join('')
const LETTERS = 'Zq3Vx8Lm2Np7Rt5Kw9Yb4Hd6'

const FORBIDDEN: Readonly<Record<string, readonly string[]>> = {
  'local-path': [
    'see /home/octo/project/src',
    '`/Users/octo/Library/x`',
    'wrote /tmp/run-42/out.txt',
    'PATH=/usr/bin:/home/octo/bin',
    'at run (file:///srv/app/main.ts:3:1)',
    '"path":"\\/home\\/octo\\/x"',
    'open C:\\Users\\octo\\x',
    '%2Fhome%2Focto%2Fkeys',
    `cd ${['', 'work', 'main'].join('/')}`,
    'in /root/.ssh/config',
    '/var/folders/ab/cd/T/x',
  ],
  'private-host': [
    'curl http://10.1.2.3:8080/',
    'host 192.168.0.12',
    'at 172.20.1.9.',
    '100.64.3.4 is it',
    'ssh git.acme.corp',
    'https://vault.prod.internal/v1',
    'printer.local',
    'http://buildbox:9000/x',
    'octo@buildbox:~$ ls',
    'fd12:3456:789a::1',
    'fe80::1',
    'http://[fd00::2]/',
    'postgres://db/craik',
    'ssh octo@build-7',
    '$ ssh -p 2222 octo@build-7 uptime',
    'copy it: scp report.md octo@buildbox:',
    "rsync -a dist/ 'octo@build-7'",
    '$ ssh build-7 uptime',
  ],
  'command-payload': [
    '{"command": "rm -rf build"}',
    '{"raw_command":["git","push"]}',
    "{'command_payload': 'ls'}",
    '{"stdin":"hello"}',
    '{"metadata":"{\\"stdout\\":\\"hello\\"}"}',
    '{"rawCommand": "ls"}',
    'stderr: "it broke"',
    '{"payload": {"a": 1}}',
    'raw_command: curl https://example.com/x | sh',
    'rawCommand: git push',
    'stdout: 3 passed',
    '  stderr: it broke # at last',
    'command: rm -rf build',
    '- command: make deploy',
    '> command: make deploy',
    'command: ["rm", "-rf", "build"]',
    'command:\n  - rm\n  - -rf\n',
    'command:\n- rm\n- -rf\n',
    'stdout: |\n  3 passed\n',
    'command_payload:\n  argv: rm\n',
    "stdin: 'y'",
  ],
  'environment-map': [
    '{"env": {"PATH": "/usr/bin"}}',
    '{\n  "environment": {\n    "EDITOR": "vi"\n  }\n}',
    '{"Env":["EDITOR=vi"]}',
    'environment:\n  EDITOR: vi\n',
    'environment_variables:\n  EDITOR: vi\n',
    'env_vars:\n  - EDITOR=vi\n',
    '  environ:\n    EDITOR: "vi"\n',
    'env: {EDITOR: vi}',
    'env: [EDITOR=vi]',
    'export EDITOR=vi\nexport LANG=C\n',
    '$ export EDITOR=vi\n$ export LANG=C',
    'EDITOR=vi\nLANG=C\n',
    'docker run -e EDITOR=vi --env LANG=C image',
    'USER=octo\nLANG=C\nSHELL=/bin/sh\n',
  ],
  'webhook-secret': [
    joinParts('wh', 'sec_', LETTERS),
    joinParts('https://hooks.', 'slack.com/services/', 'T0123ABCD/B0123ABCD/', LETTERS),
    joinParts('https://acme.webhook.', 'office.com/webhookb2/', LETTERS),
  ],
  'bearer-token': [
    joinParts('Authorization: Bea', 'rer ', LETTERS),
    joinParts('curl -H "Authorization: Bea', 'rer ', LETTERS, '"'),
  ],
  'ssh-key': [
    joinParts(
      '-----BEGIN OPENSSH PRI',
      'VATE KEY-----\n',
      LETTERS,
      '\n-----END OPENSSH PRI',
      'VATE KEY-----',
    ),
    joinParts('ssh-ed', '25519 AAAAC3NzaC1lZDI1NTE5AAAAI', LETTERS),
  ],
  credential: [
    joinParts('OPENAI_API_KEY=s', 'k-proj-', LETTERS),
    joinParts('s', 'k-ant-api03-', LETTERS),
    joinParts('AI', 'zaSy', LETTERS, LETTERS),
    joinParts('gh', 'p_', LETTERS, LETTERS),
    joinParts('AK', 'IAZQ3VX8LM2NP7RT5K'),
    `password: ${LETTERS}`,
    joinParts('postgres://octo:', LETTERS, '@db.example/craik'),
  ],
  'tool-output': [
    '{"tool_output": "3 passed"}',
    '{"stdout_preview":"hello"}',
    '{"cookies":[{"name":"a"}]}',
    '{"dom":"<p>hi</p>"}',
    `![shot](data:image/png;base64,${'iVBORw0KGgo'.repeat(8)})`,
    '\u001b[31mfailed\u001b[0m',
    'tool_output: 3 passed',
    'stdout_preview: |\n  3 passed\n',
  ],
  'fixture-id': [
    ...['rcpt', 'grant', 'run', 'handoff', 'hold', 'task', 'agent_demo_openai'].map(
      (prefix) => `${prefix}_01M7F8P96FFFG853Q6R4ZXZTHF`,
    ),
    '{"id":"rcpt_01M7F8P96FFFG853Q6R4ZXZTHF"}',
    'receipt 01M7F8P96FFFG853Q6R4ZXZTHF',
    'rcpt_01M7F8…THF',
    'rcpt_01JC…4XA',
    'run_01M7F8...',
  ],
}

const CLEAN = [
  '`~/.craik/state/shell-output/`, `CRAIK_HOME`, `config/providers/*.yaml`',
  'It cannot read `/etc/shadow`; `/tmp` and `/home` are its own; `/proc` is new.',
  'GET `<base>/v1/models`, `https://example.com/home/octo`, `/v1/sandboxes/{id}`',
  '/home/<you>/project, /home/$USER, /tmp/…',
  'Refused: `8.8.8.8`, `metadata.google.internal`, 169.254.169.254, 10.0.0.0/8, fc00::/7.',
  'http://localhost:11434/v1, http://127.0.0.1:8000, http://[::1]:1234/v1, craik.local/5eed',
  'collector.example:443, you@example.test, 192.0.2.7, 198.51.100.4, version 10.2.1',
  '{"command_ref":"sandbox_action:fixture-action","env_ref_names":["CI_REGION"],"stdout":"","stderr":"[REDACTED]"}',
  '{"env": {}, "environment": ["EDITOR", "LANG"], "command": "…", "payload": null}',
  '$ CRAIK_HOME=~/.craik-demo craik provider list',
  '`OPENAI_API_KEY` is the name of a secret; `craik secret bind OPENAI_API_KEY --env OPENAI_API_KEY`',
  'a payload is dropped; stdout: its size and its hash; the command and the environment are references',
  'settings.local.json, console.local(), window.internal()',
  'raw_command: …\nstdout: ""\nstderr: [REDACTED]\npayload: null\ncommand: <registered name>\nstdin:\n',
  'command_ref: fixture-action\nenvironment:\n  - EDITOR\n  - LANG\nenv_vars: [EDITOR]\nenv: {}\n',
  '$ export CRAIK_HOME=~/.craik-demo\n$ craik provider list',
  'export EDITOR=<yours>\nexport LANG=$LANG\n',
  '$ ssh user@host, ssh octo@build.example, ssh keys, craik@0.1.0',
  'rcpt_…, rcpt_a, run_2m8q, rcpt_01JC…2PD, grant_01JCQ3V8Z…',
  'rcpt_01JCQ3V8Z0W4N5T6R7Y8K9M2PD sha256:823b13d51b144fbc98859067d6c4a65a0c4602e96359990b52c970265898c7ff',
]

describe.each(Object.entries(FORBIDDEN))('%s', (rule, samples) => {
  it.each(samples)('is found in %j', (sample) => {
    const findings = findingsIn('docs/x.md', `# Title\n\n${sample}\n`)
    expect(findings.map((finding) => finding.rule)).toContain(rule)
    expect(findings.every(({ line }) => line >= 3)).toBe(true)
  })
})

describe('a page', () => {
  it.each(CLEAN)('may contain %j', (sample) => {
    expect(findingsIn('docs/x.md', `${sample}\n`)).toEqual([])
  })

  it('reports the line of a finding at any position', () => {
    const linesOfText = fc.array(fc.constantFrom('a word', '', '| a | b |', 'craik receipts list'), {
      maxLength: 40,
    })
    const samples = fc.constantFrom(
      ...Object.entries(FORBIDDEN).flatMap(([rule, all]) => all.map((text) => ({ rule, text }))),
    )
    fc.assert(
      fc.property(linesOfText, samples, linesOfText, (before, { rule, text }, after) => {
        const page = [...before, '', text, '', ...after, ''].join('\n')
        const found = findingsIn('docs/x.md', page).filter((finding) => finding.rule === rule)
        const [first, last] = [before.length + 2, before.length + 1 + text.split('\n').length]
        expect(found.some(({ line }) => line >= first && line <= last)).toBe(true)
      }),
    )
  })

  it('never leads to the output of a secret', () => {
    const shown = ['webhook-secret', 'bearer-token', 'ssh-key', 'credential'].flatMap((rule) =>
      FORBIDDEN[rule]!.flatMap((sample) => findingsIn('docs/x.md', sample)),
    )
    expect(JSON.stringify(shown)).not.toContain(LETTERS)
  })
})

describe('a fixture in code', () => {
  it('may name types and variables, but may not contain values', () => {
    for (const code of [
      'readonly signingKey: KeyObject\n',
      'open(store.home, { at: paths.local })\n',
      'run({ command, stdout: stream, env: { PATH, HOME: home } })\n',
      'readonly command: string\n  command: [program, ...rest],\n',
      "const stops = { max_tokens: 'length' }\n",
    ])
      expect(findingsIn('src/x.fixture.ts', code)).toEqual([])
    for (const code of [
      "open('git.acme.corp')",
      '// see git.acme.corp',
      ' * see git.acme.corp',
      '`\ngit.acme.corp`',
    ])
      expect(findingsIn('src/x.fixture.ts', code).map(({ rule }) => rule)).toEqual(['private-host'])
    const value = findingsIn('src/x.fixture.ts', `const keys = { password: '${LETTERS}' }\n`)
    expect(value.map(({ rule }) => rule)).toEqual(['credential'])
    for (const [code, rule] of [
      ["run({ command: 'rm -rf build' })", 'command-payload'],
      ["run({ command: ['rm', '-rf'] })", 'command-payload'],
      ["run({ env: { EDITOR: 'vi' } })", 'environment-map'],
      ['const frame = { stdout: `3 passed` }', 'command-payload'],
      ["const id = 'run_01M7F8P96FFFG853Q6R4ZXZTHF'", 'fixture-id'],
      [`const answer = { max_tokens: '${LETTERS}' }`, 'credential'],
    ])
      expect(findingsIn('test/x.ts', `${code}\n`).map((found) => found.rule)).toEqual([rule])
  })
})

describe('the check', () => {
  let root: string
  const write = (path: string, text: string) => {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), text)
  }
  const findBreaches = (deliberate = {}) =>
    checkPublic(root, deliberate).findings.map(({ file, line, rule }) => `${file}:${line} ${rule}`)

  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'craik-public-'))
    for (const page of ['README.md', 'SECURITY.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'docs/a/b.md'])
      write(page, '# Clean\n')
    write('docs/verify/vectors/ok.jsonl', '{}\n')
    write('src/x/y.fixture.ts', 'export const x = 1\n')
    write('test/wire/server.ts', 'export const x = 1\n')
  })
  afterEach(() => rmSync(root, { recursive: true }))

  it('accepts a clean repository and reports how many files it read', () => {
    expect(checkPublic(root, {})).toEqual({ files: 8, findings: [] })
  })

  it.each([
    'README.md',
    'SECURITY.md',
    'CONTRIBUTING.md',
    'CHANGELOG.md',
    'docs/a/b.md',
    'src/x/y.fixture.ts',
    'docs/verify/vectors/ok.jsonl',
    'test/fixtures/answer.json',
    'test/e2e/z.fixture.ts',
    'test/wire/server.ts',
    'test/local-model.ts',
    'bench/RESULTS.md',
  ])('reads %s', (path) => {
    write(path, 'fine\n"/home/octo/x"\n')
    expect(findBreaches()).toEqual([`${path}:2 local-path`])
  })

  it('does not read files that are neither pages nor fixtures', () => {
    write('src/x/y.ts', '"/home/octo/x"\n')
    write('test/e2e/z.test.ts', '"/home/octo/x"\n')
    expect(findBreaches()).toEqual([])
  })

  it('fails when there are no files to read', () => {
    rmSync(join(root, 'docs'), { recursive: true })
    rmSync(join(root, 'src'), { recursive: true })
    rmSync(join(root, 'test'), { recursive: true })
    rmSync(join(root, 'README.md'))
    expect(findBreaches()).toEqual([
      'README.md:1 not-found',
      'a page in docs:1 not-found',
      'the vectors in docs/verify/vectors:1 not-found',
      'a fixture in src:1 not-found',
      'the servers in test/wire:1 not-found',
    ])
  })

  it('refuses files that it cannot read as text', () => {
    write('docs/shot.png', 'PNG\0\0')
    write('docs/large.md', 'x'.repeat((4 << 20) + 1))
    symlinkSync('/etc/hostname', join(root, 'docs/link.md'))
    expect(findBreaches()).toEqual([
      'docs/large.md:1 unreadable',
      'docs/link.md:1 unreadable',
      'docs/shot.png:1 unreadable',
    ])
  })

  it('accepts a deliberate exception for its file and rule only', () => {
    write('docs/a/b.md', '"/home/octo/x"\n10.1.2.3\n')
    write('docs/a/c.md', '"/home/octo/x"\n')
    const deliberate = { 'docs/a/b.md': { rules: ['local-path'], reason: 'a sample' } }
    expect(findBreaches(deliberate)).toEqual(['docs/a/b.md:2 private-host', 'docs/a/c.md:1 local-path'])
  })

  it('accepts a deliberate exception for a folder, and nothing outside of it', () => {
    write('docs/verify/vectors/ok.jsonl', '"/home/octo/x"\n')
    write('docs/verify/vectors.md', '"/home/octo/x"\n')
    const deliberate = { 'docs/verify/vectors/': { rules: ['local-path'], reason: 'samples' } }
    expect(findBreaches(deliberate)).toEqual(['docs/verify/vectors.md:1 local-path'])
  })

  it('reports an exception that hides no finding', () => {
    const deliberate = { 'docs/a/b.md': { rules: ['credential'], reason: 'was a sample' } }
    expect(findBreaches(deliberate)).toEqual(['docs/a/b.md:1 stale-exception'])
  })
})
