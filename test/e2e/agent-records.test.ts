/** Agent commands with records that were edited in the database, and with prompts from a pipe. */
import { hash } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, it } from 'vitest'
import { TestHome } from '../craik.ts'

async function homeWithLogin(): Promise<TestHome> {
  const home = new TestHome()
  mkdirSync(home.path('work'))
  await home.json(['login', '--as', 'ada'])
  return home
}

const launch = (home: TestHome) =>
  home.json(['agent', 'launch', '--workspace', home.path('work'), '--session-id', 's1'])

describe('the operator’s login', () => {
  it('whose subject was edited to be invalid gives a clear error, and ends with craik logout', async () => {
    using home = await homeWithLogin()
    const database = new DatabaseSync(`${home.home}/state/craik.sqlite3`)
    database.exec("UPDATE logins SET subject = 'not a subject'")
    database.close()
    for (const args of [['whoami'], ['agent', 'list'], ['run', 'list']]) {
      const { code, stderr } = await home.run(args)
      expect(code).toBe(1)
      expect(stderr).toMatch(/login login_\w+ was changed outside Craik.*\n.*craik logout/)
    }
    await home.json(['logout'])
    expect(await home.json(['login', '--as', 'ada'])).toMatchObject({ began: true, replaced: null })
  })
})

describe('a session', () => {
  it('that is unreadable does not hide the other sessions, and gives its own error', async () => {
    using home = await homeWithLogin()
    await launch(home)
    await home.json(['agent', 'prompt', 's1', 'hi'])
    await home.json(['agent', 'launch', '--workspace', home.path('work'), '--session-id', 's2'])
    const database = new DatabaseSync(`${home.home}/state/craik.sqlite3`)
    database.exec("UPDATE sessions SET document = json_set(document, '$.subject', 'x') WHERE id = 's1'")
    database.exec("UPDATE runs SET document = json_remove(document, '$.operator_subject')")
    database.exec("UPDATE handoffs SET document = '7'")
    database.close()
    expect(await home.json(['agent', 'list'])).toMatchObject([
      { session: { id: 's2', status: 'idle' }, hmac_status: 'verified' },
      { session: { id: 's1' }, hmac_status: 'tampered' },
    ])
    expect((await home.run(['agent', 'list', '--format', 'table'])).stdout).toMatch(/s1 .* tampered/)
    expect(await home.json(['run', 'list'])).toMatchObject([{ hmac_status: 'tampered' }])
    expect(await home.json(['handoff', 'list'])).toMatchObject([{ hmac_status: 'tampered' }])
    const { code, stderr } = await home.run(['agent', 'status', 's1'])
    expect(code).toBe(1)
    expect(stderr).toContain('session s1 was changed outside Craik and is unreadable')
  })

  it('reads its prompt from stdin with -, and refuses an empty, invalid or large prompt', async () => {
    using home = await homeWithLogin()
    await launch(home)
    const prompt = (input: string | Buffer) => home.run(['agent', 'prompt', 's1', '-'], { input })
    const { run } = JSON.parse((await prompt('run the fixture action\n')).stdout) as {
      run: { prompt_hash: string }
    }
    expect(run.prompt_hash).toBe(hash('sha256', 'run the fixture action').slice(0, 16))
    const where = ['--workspace', home.path('work')]
    expect(await home.json(['run', 'execute', '-', ...where], { input: 'do it' })).toMatchObject({
      run: { prompt_hash: hash('sha256', 'do it').slice(0, 16) },
    })
    expect(await prompt('')).toMatchObject({ code: 2, stderr: expect.stringContaining('is empty') })
    expect(await prompt(Buffer.from([0xff, 0xfe]))).toMatchObject({ code: 2 })
    const large = await prompt('x'.repeat(256 * 1024 + 1))
    expect(large.stderr).toContain('too large')
    expect(await prompt('x'.repeat(1024 * 1024))).toMatchObject({ code: large.code })
    expect(await home.json<unknown[]>(['run', 'list'])).toHaveLength(2)
  })
})
