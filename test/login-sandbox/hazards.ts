/** Known problems of similar sandboxes, tested in a login sandbox as the user that it really runs as. */
import { randomBytes } from 'node:crypto'
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { USER_UID } from '../sandbox-home.ts'
import type { LoginSandboxScene } from './scene.ts'

/** Requires a running sandbox of a user who is logged in to Claude Code and GitHub. */
export function hazards(scene: () => LoginSandboxScene): void {
  it('runs everything as the owner of its files, and never as root', async () => {
    const here = scene()
    expect(await here.inside('id -un; touch made; ! touch /usr/made 2>/dev/null && echo held')).toBe(
      'agent\nheld\n',
    )
    expect(statSync(join(here.workspace, 'made')).uid).toBe(USER_UID)
    for (const name of readdirSync(join(here.scene.home.home, 'volumes')))
      expect(statSync(join(here.scene.home.home, 'volumes', name)).uid).not.toBe(0)
    expect(await here.inside('find ~ ! -user agent 2>/dev/null | wc -l')).toBe('0\n')
  })

  it('starts in spite of a lock that git left behind', async () => {
    const here = scene()
    await here.inside('echo stale > ~/.gitconfig.lock')
    await here.run(['down'])
    expect(await here.up()).toMatchObject({ how: 'resumed' })
    expect(await here.inside('git config --global craik.test yes && git config craik.test')).toBe('yes\n')
  })

  it('starts after any change to its home folder, and reports what it could not set up', async () => {
    const here = scene()
    await here.inside('mkdir ~/away && mv ~/.codex ~/away/ && ln -s ~/away/.codex ~/.codex')
    const { notes } = await here.up()
    expect(notes.join()).toMatch(/could not set up the whole home: .*codex/)
    await here.inside('rm ~/.codex && mv ~/away/.codex ~/ && rmdir ~/away')
    expect((await here.up()).notes.join()).not.toContain('could not set up')
  })

  it('reaches GitHub only over HTTPS, with each form of address, and after any number of starts', async () => {
    const here = scene()
    await here.up()
    const rewritten = await here.inside(
      'for url in git@github.com:octo/x ssh://git@github.com/octo/x; do git ls-remote --get-url "$url"; done; git config --global --get-all url.https://github.com/.insteadOf | wc -l',
    )
    expect(rewritten).toBe('https://github.com/octo/x\nhttps://github.com/octo/x\n2\n')
    expect(
      await here.inside(
        'git config commit.gpgsign; git config tag.gpgSign; ls ~/.ssh 2>&1 | wc -l; printenv SSH_AUTH_SOCK || echo none',
      ),
    ).toBe('false\nfalse\n1\nnone\n')
  })

  it('has logins in files that only their owner can read, with nothing left in /run/secrets and no real credential', async () => {
    const here = scene()
    const output = await here.inside(
      'stat -c "%a %U" ~/.claude/.credentials.json ~/.config/gh/hosts.yml; ls -A /run/secrets 2>/dev/null | wc -l',
    )
    expect(output).toBe('400 agent\n400 agent\n0\n')
    expect(await here.scene.hunt({}, ['/opt/craik-harnesses'])).toEqual([])
  })

  it('commits under its own name whatever a repository configures, and refuses to push commits of another author', async () => {
    const here = scene()
    const script = `set -e
rm -rf ~/pushed ~/remote.git; git init -q --bare ~/remote.git; git init -q ~/pushed; cd ~/pushed; git remote add origin ~/remote.git
git config user.email octo@work.example
git commit -q --allow-empty -m ours; git push -q origin HEAD:refs/heads/ours && echo pushed
GIT_AUTHOR_EMAIL=octo@work.example git commit -q --allow-empty -m theirs
git push -q origin HEAD:refs/heads/theirs 2>&1 || echo refused`
    expect(await here.inside(script)).toMatch(/^pushed\n.*octo@work\.example.*refused\n$/s)
  })

  it('sees none of the user’s own files', async () => {
    const here = scene()
    const marker = `marker${randomBytes(8).toString('hex')}`
    const planted = [
      '.claude/projects/-work/session.jsonl',
      '.claude/settings.json',
      '.claude/CLAUDE.md',
      '.ssh/id_ed25519',
      '.config/linear-mcp/config.json',
      '.codex/sessions/2026/11/15/rollout.jsonl',
      '.gemini/tmp/parser/chats/session-1.jsonl',
      '.bash_history',
      '.netrc',
    ]
    for (const path of planted) here.scene.put(path, JSON.stringify({ marker }))
    await here.run(['down'])
    await here.up()
    const found = await here.inside(
      `ls -d /* | grep -v '^/\\(proc\\|sys\\|usr\\|opt\\|s*bin\\|lib[0-9x]*\\)$' | xargs grep -rsl ${marker} 2>/dev/null; env | grep -c ${marker}; true`,
    )
    expect(found).toBe('0\n')
    expect(await here.inside('ls ~/.claude/settings.json ~/.claude/CLAUDE.md 2>/dev/null | wc -l')).toBe(
      '0\n',
    )
  })

  it('keeps its shell history in /tmp alone, unless that is a link into persistent data', async () => {
    const here = scene()
    expect(await here.inside('bash -lic \'echo "$HISTFILE"\' 2>/dev/null')).toMatch(/^.tmp.\.bash_history\n$/)
    await here.inside('touch ~/.local/history && ln -sf ~/.local/history ~/.bash_history')
    expect(await here.inside('bash -lic \'echo "$HISTFILE"\' 2>/dev/null')).toContain(
      '/workspace/home/.bash_history',
    )
    await here.inside('rm ~/.bash_history')
  })
}
