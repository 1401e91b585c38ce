/** The readers of all supported programs. */
import type { TranscriptHarness } from '../conversation.ts'
import { claudeCodeReader } from './claude-code.ts'
import { codexReader } from './codex.ts'
import { geminiReader } from './gemini.ts'
import { kimiReader } from './kimi.ts'
import { opencodeReader } from './opencode.ts'
import type { TranscriptReader } from './reader.ts'

export const READERS: Readonly<Record<TranscriptHarness, TranscriptReader>> = {
  'claude-code': claudeCodeReader,
  codex: codexReader,
  gemini: geminiReader,
  opencode: opencodeReader,
  kimi: kimiReader,
}
