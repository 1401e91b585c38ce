/**
 * Replaces the parts of a screen that differ between runs. The new text has the same width wherever a column depends on
 * it.
 */

const RULES: readonly (readonly [pattern: RegExp, text: string])[] = [
  [/(?<=_)[0-9A-HJKMNP-TV-Z]{26}\b/g, '01JCQ3V8Z0W4N5T6R7Y8K9M2PD'],
  [/(?<=_)[0-9A-HJKMNP-TV-Z]{4}…[0-9A-HJKMNP-TV-Z]{3}/g, '01JC…2PD'],
  [/\bsandbox-[a-z0-9]{6}\b/g, 'sandbox-7f3kq2'],
  [/\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d/g, '2026-11-15 09:12:44'],
  [/\b\d{4}-\d\d-\d\d \d\d:\d\d/g, '2026-11-15 09:12'],
  [/\b\d{4}-\d\d-\d\d\b/g, '2026-11-15'],
  [/\b\d\d:\d\d:\d\d\b/g, '09:12:44'],
  // Times have different widths, so the rule applies only where no column follows them.
  [/\b(?:\d+\.)?\d+ (?:ms|s|min)(?= ·|$)/gm, '1.4 s'],
  [/\b(?:\d+\.)?\d+ (?:ms|s|min)(?= +(?:sbx_|$))/gm, '1.4 s'],
  [/\b\d+ checkpoints?\b/g, '4 checkpoints'],
  // The last receipts of a prompt can be written after its summary.
  [/\b\d+(?=, none denied$)/gm, '12'],
  [/^( +ok +node )\d+\.\d+/gm, '$124.21'],
]

/** `folder` is the test's own folder, whose name differs between runs. */
export function normalizeScreen(screen: string, folder: string): string {
  return RULES.reduce(
    (text, [pattern, replacement]) => text.replace(pattern, replacement),
    screen.replaceAll(folder, '/home/ada'.padEnd(folder.length, '_')),
  )
}
